"""`python -m tools.references`: regenerates the pages; tests compare them."""

from __future__ import annotations

from tools.references.pages import FOLDER, PAGES

for name, write in PAGES.items():
    (FOLDER / name).write_text(write(), encoding="utf-8")
