"""An application at the top of a module, as processes of its trains need it."""

from __future__ import annotations

import os

from gandy import Gandy, Run

app = Gandy("press", database="sqlite:///never-opened.db")


@app.train(process=True)
def print_pages(pages: int, run: Run) -> tuple[int, int]:
    run.log.info("printing %d pages", pages)
    run.progress(pages, pages)
    return os.getpid(), pages
