"""How large Gandy's own tables are, and what their pruning does; at a cost that has a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.store.statements import Operation, Rows


#: Counting ends here; beyond, the catalogue's estimate stands where there is one.
COUNTED: Final = 10_000
_CYCLES: Final = 300
#: So many of the newest rows tell how fast they come.
SAMPLED: Final = 1_000


def count_rows() -> Operation[Rows]:
    """Count the rows of each table, up to the limit."""
    return (yield statement("count_table_rows", limit=COUNTED))


def measure() -> Operation[Rows]:
    """Read sizes and estimates, where the database keeps them."""
    return (yield statement("measure_tables"))


def find_oldest() -> Operation[Rows]:
    """Find the oldest row of each table."""
    return (yield statement("find_oldest_rows"))


def sample_arrivals() -> Operation[Rows]:
    """Look at the newest rows of each table."""
    return (yield statement("sample_arrivals", sampled=SAMPLED))


def list_upkeep(owner: str, trains: Sequence[str]) -> Operation[Rows]:
    """List what the trains that prune did within the hour, the newest first."""
    return (yield statement("list_upkeep", owner=owner, trains=list(trains), limit=_CYCLES))
