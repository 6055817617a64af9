"""The days of history: which have partitions, which are over, and what each needs next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gandy.store.statements import statement

if TYPE_CHECKING:
    from datetime import date, timedelta

    from gandy.store.statements import Operation

_COUNTED_UP_TO: Final = 10_001


@dataclass(frozen=True, slots=True)
class Horizon:
    """The days that have partitions (`since` to before `until`), and the day that it is."""

    since: date
    until: date
    today: date


@dataclass(frozen=True, slots=True)
class PastLeaf:
    """A partition of a day that is over, and the command that brings its end nearer."""

    name: str
    parent: Literal["log", "metadata"]
    day: date
    is_detached: bool
    estimate: int
    command: str


@dataclass(frozen=True, slots=True)
class HistoryState:
    """What a check-up has to know about the days of history."""

    days_ahead: int
    past_leaves: int  #: partitions of days that are over
    kept_by_row: (
        int  #: long-kept runs whose day had no partition, so that each is pruned by itself; 10,001: many
    )


def read_horizon() -> Operation[Horizon | None]:
    """Read which days have partitions; None where history has none at all."""
    rows = yield statement("read_horizon")
    return Horizon(rows[0].since, rows[0].until, rows[0].today) if rows else None


def lock_history(patience: timedelta) -> Operation[bool]:
    """Take the layout for as long as the connection lasts; who does not get it leaves it to another."""
    yield statement("give_way_always", milliseconds=_milliseconds(patience))
    return bool((yield statement("try_lock_history"))[0].is_held)


def close_past_days() -> Operation[None]:
    """Let no run be sent to a day that is over."""
    yield statement("close_past_days")


def add_day(day: date, patience: timedelta) -> Operation[None]:
    """Make the partitions of a day, and let runs be sent there."""
    yield statement("begin_batch", milliseconds=_milliseconds(patience))
    yield statement("add_history_day", day=day)
    yield statement("open_history_day", day=day)


def find_past_leaves(name: str | None = None) -> Operation[tuple[PastLeaf, ...]]:
    """Find the partitions of days that are over, those first that somebody began to detach."""
    rows = yield statement("find_past_leaves", leaf=name)
    return tuple(
        PastLeaf(row.leaf, row.parent, row.day, row.is_detached, row.estimate, row.command) for row in rows
    )


def find_unfinished_run(day: date) -> Operation[int | None]:
    """Find a run on that day that is not over; there should be none."""
    rows = yield statement("find_unfinished_on", day=day)
    return rows[0].id if rows else None


def count_rows(leaf: PastLeaf) -> Operation[int]:
    """Say how many rows go with a partition: by the statistics, or counted where there are none."""
    if leaf.estimate or leaf.is_detached:
        return leaf.estimate
    rows = yield statement("count_logs_on" if leaf.parent == "log" else "count_runs_on", day=leaf.day)
    counted: int = rows[0].rows
    return counted


def read_history() -> Operation[HistoryState | None]:
    """Read what a check-up wants to know; None where history has no partitions."""
    rows = yield statement("read_history", limit=_COUNTED_UP_TO)
    if not rows:
        return None
    row = rows[0]
    return HistoryState((row.until - row.today).days, row.past_leaves, row.kept_by_row)


def _milliseconds(span: timedelta) -> int:
    return int(span.total_seconds() * 1000)
