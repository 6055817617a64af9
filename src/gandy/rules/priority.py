"""Who goes first: 0 to 31, higher before lower."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.model.schedule import Origin
from gandy.settings.bounds import HIGHEST_PRIORITY

if TYPE_CHECKING:
    from typing import Final

LOWEST: Final = 0
DEPENDENT_BOOST: Final = 16


def entry_priority(manifest: int | None, group: int) -> int:
    """Take the manifest's own priority, else its group's."""
    return group if manifest is None else manifest


def ordering_priority(priority: int, origin: Origin) -> int:
    """Rank an entry for dispatch: dependents finish what their parents began."""
    boost = DEPENDENT_BOOST if origin is Origin.DEPENDENT else 0
    return max(LOWEST, min(priority + boost, HIGHEST_PRIORITY))
