"""Sizes of Gandy's own tables, and the results of their pruning; of bounded cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.store.statements import Operation, Rows


#: The limit of counts; above it, the catalogue's estimate is used if there is one.
COUNTED: Final = 10_000
_CYCLES: Final = 300
#: The number of newest rows from which the insert rate is computed.
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
    """Read the newest rows of each table."""
    return (yield statement("sample_arrivals", sampled=SAMPLED))


def list_upkeep(owner: str, trains: Sequence[str]) -> Operation[Rows]:
    """List the runs of pruning trains within the hour, the newest first."""
    return (yield statement("list_upkeep", owner=owner, trains=list(trains), limit=_CYCLES))
