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


class PaperJamError(Exception):
    """One that cannot be made again from its arguments: only the process that raised it has the real one."""

    def __init__(self, page: int, *, tray: str) -> None:
        super().__init__(f"page {page} of {tray}")


class TornPageError(PaperJamError):
    pass


@app.train(process=True, give_up_on=(PaperJamError,), max_retries=5)
def tear_pages(pages: int) -> int:
    raise TornPageError(pages, tray="A")
