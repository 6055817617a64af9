"""Which pages there are, and what writes each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from gandy.settings.catalogue import render_reference
from gandy.upkeep.page import render_page
from tools.references.commands import command_page
from tools.references.interactions import interactions_page
from tools.references.metrics import metrics_page
from tools.references.tables import tables_page
from tools.references.verbs import verbs_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "commands.md": command_page,
    "interactions.md": interactions_page,
    "maintenance.md": render_page,
    "metrics.md": metrics_page,
    "settings.md": render_reference,
    "tables.md": tables_page,
    "verbs.md": verbs_page,
}
NOTE: Final = "<!-- Written by `python -m tools.references`; a test compares. -->"
