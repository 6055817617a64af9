"""Sizes of Gandy's own tables, and the results of their pruning; of bounded cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.store.statements import Operation, Rows


#: The limit of counts; above it, the catalogue's estimate is used if there is one.
COUNTED: Final = 10_000
#: On SQLite all pages are read to measure tables: for the dashboard, only of files up to this size.
SHOWN_FILE: Final = 16 * 1024**2
_CYCLES: Final = 300
#: The number of newest rows from which the insert rate is computed.
SAMPLED: Final = 1_000


def count_rows() -> Operation[Rows]:
    """Count the rows of each table, up to the limit."""
    return (yield statement("count_table_rows", limit=COUNTED))


def measure(*, largest_file: int = SHOWN_FILE) -> Operation[Rows]:
    """Read sizes and estimates, where that is cheap: on SQLite, of a file up to this size."""
    is_cheap = bool((yield statement("can_measure", largest=largest_file))[0].is_there)
    return (yield statement("measure_tables")) if is_cheap else []


def find_oldest() -> Operation[Rows]:
    """Find the oldest row of each table."""
    return (yield statement("find_oldest_rows"))


def sample_arrivals() -> Operation[Rows]:
    """Read the newest rows of each table."""
    return (yield statement("sample_arrivals", sampled=SAMPLED))


def list_upkeep(owner: str, trains: Sequence[str]) -> Operation[Rows]:
    """List the runs of pruning trains within the hour, the newest first."""
    return (yield statement("list_upkeep", owner=owner, trains=list(trains), limit=_CYCLES))
