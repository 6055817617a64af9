"""Sizes of tables over time: samples of Gandy's own tables and of the tables of contracts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from gandy.store.cleanup import Deletion, RowWalk
from gandy.store.owners import ALL_APPLICATIONS, take_turn
from gandy.store.reading.tables import COUNTED, count_rows, measure
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from gandy.store.statements import Operation, Row, Rows

SAMPLED_EVERY: Final = timedelta(hours=1)
KEPT_SAMPLES: Final = timedelta(days=30)
LARGEST_FILE: Final = 256 * 1024**2  # of SQLite, whose pages are all read
_EARLY_SECONDS: Final = 30.0  # passes come every minute: the hour must not become an hour and a minute
_LISTED: Final = 100_000


class TableSample(NamedTuple):
    """The size of one table."""

    table_name: str
    rows: int | None
    bytes: int | None
    lag_seconds: float | None  #: how long the oldest expired row is overdue; None: nothing is, or not known


def take_sampling_turn(scheduler: str, *, owner: str = ALL_APPLICATIONS) -> Operation[bool]:
    """Return True to one process per hour; a scheduler is Gandy itself, or a contract."""
    seconds = SAMPLED_EVERY.total_seconds() - _EARLY_SECONDS
    return (yield from take_turn(f"table_sample.{scheduler}", every_seconds=seconds, owner=owner))


def write_samples(
    scheduler: str, samples: Sequence[TableSample], *, owner: str = ALL_APPLICATIONS
) -> Operation[None]:
    """Record sizes as of now."""
    yield batch("write_samples", samples, owner=owner, scheduler=scheduler)


def list_samples(owner: str, since: datetime, *, is_daily: bool) -> Operation[Rows]:
    """List the samples of Gandy's own tables and of an application's, of each hour or of each day."""
    return (yield statement("list_samples", owner=owner, since=since, is_daily=is_daily, limit=_LISTED))


def size_own_tables(lags: Mapping[str, float]) -> Operation[list[TableSample]]:
    """Measure Gandy's own tables at a bounded cost: counts up to a limit, above it estimates."""
    counted = {row.name: row.rows for row in (yield from count_rows())}
    measured: dict[str, Row] = {row.name: row for row in (yield from measure(largest_file=LARGEST_FILE))}
    estimated = {row.name: row.rows for row in (yield statement("estimate_rows"))} if not measured else {}
    return [
        TableSample(
            table_name=name,
            rows=_rows(rows, measured.get(name), estimated.get(name)),
            bytes=measured[name].bytes if name in measured else None,
            lag_seconds=lags.get(name),
        )
        for name, rows in counted.items()
    ]


def _rows(counted: int, measured: Row | None, estimated: int | None) -> int | None:
    if counted < COUNTED:
        return counted
    return estimated if measured is None else max(counted, measured.rows)


def old_samples(before: datetime, *, is_daily: bool) -> RowWalk:
    """Walk the samples past their age."""
    return RowWalk(
        table="table_sample",
        finding="find_old_samples",
        deletions=(Deletion("delete_old_samples", "table_sample"),),
        given={"is_daily": is_daily, "before": before},
    )
