"""Letting schedules come due, the same way for Gandy and for direct SQL on its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

SQL = load_statements(__file__)
#: So often a statement has to run before its plan is kept.
WARM_TICKS = 6
WARM_DUE = 10


def make_due(connection: psycopg.Connection, manifests: int, *, tick: Callable[[], int]) -> None:
    """Let some come due, with an empty queue, fresh statistics, and plans kept from ticks after those."""
    connection.execute(SQL["empty_queue"])
    connection.execute(SQL["postpone"])
    connection.execute("VACUUM ANALYZE gandy.manifest")
    for _ in range(WARM_TICKS):
        connection.execute(SQL["make_due"], [WARM_DUE])
        if tick() != WARM_DUE:
            raise AssertionError("a tick left something due")
        connection.execute(SQL["clear_queue"])
    connection.execute(SQL["make_due"], [manifests])
