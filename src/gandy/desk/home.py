"""The overview: current activity, and concerns for operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from gandy.desk.audit import shown
from gandy.desk.explain import Concern, Count, find_concerns
from gandy.store import workers
from gandy.store.manifests import read_now
from gandy.store.reading import overview, waits
from gandy.store.stats.rollups import count_ended_by_minute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation, Row

CHART_MINUTES: Final = 60
_SHOWN_RUNS: Final = 12
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """A run in progress."""

    id: int
    train: str
    manifest: str | None
    attempt: int
    start_time: datetime
    running_for: timedelta
    junction: str | None
    progress_done: int | None
    progress_total: int | None
    worker_id: str | None
    cancellation_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteCount:
    """The number of runs that ended in one minute."""

    at: datetime
    completed: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Ended runs per minute of the last hour."""

    minutes: tuple[MinuteCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldEntries:
    """Entries that one cause holds back, and the page that shows it."""

    said: str
    count: Count
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The current activity."""

    now: datetime
    running: Count
    pending: Count
    ready: Count
    later: Count
    held: Count  #: by their manifests
    held_by: tuple[HeldEntries, ...]  #: all that do not wait for their time
    unknown: Count
    turns: Count  #: waiting entries, each behind another of its manifest
    awaiting_letters: Count
    workers: int
    slots: int
    busy: int
    longest_wait: timedelta | None
    live_runs: tuple[LiveRun, ...]
    concerns: tuple[Concern, ...]

    @property
    def all_held(self) -> Count:
        """The number of entries that wait for something else than their time."""
        return _sum(each.count for each in self.held_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """The counts of the status line."""

    running: Count
    ready: Count
    waiting: Count  #: for their time, their manifest, a worker or their turn
    awaiting_letters: Count


class Home:
    """Reads the overview at a cost that does not grow with the stored rows."""

    def __init__(self, database: Database, owner: str) -> None:
        self._database = database
        self._owner = owner

    async def overview(self) -> Overview:
        """Read the current activity."""
        return await self._database.read(self._overview())

    async def glance(self) -> Glance:
        """Read the counts of the status line, in three statements."""
        return await self._database.read(self._glance())

    async def throughput(self) -> Throughput:
        """Count the runs of the last hour by the minute in which they ended."""
        return await self._database.read(self._throughput())

    async def ping(self) -> datetime:
        """Read the database's clock, as a check of the connection."""
        return await self._database.read(read_now())

    def _overview(self) -> Operation[Overview]:
        owner = self._owner
        now = yield from read_now()
        waiting = {
            row.gate: _counted(row.entries, row.seen) for row in (yield from overview.count_waiting(owner))
        }
        live = {
            row.state: _counted(row.runs, row.seen) for row in (yield from overview.count_live_runs(owner))
        }
        at_work = yield from workers.live_workers(owner)
        heads = yield from overview.list_queue_heads(owner)
        held_by = (*_held(waiting), *map(_held_group, (yield from waits.count_held_in_groups(owner))))
        letters = _up_to((yield from overview.count_awaiting_letters(owner)))
        runs = yield from overview.list_live_runs(owner, _SHOWN_RUNS)
        return Overview(
            now=now,
            running=live["in_progress"],
            pending=live["pending"],
            ready=waiting["open"],
            later=waiting["time"],
            held=waiting["manifest"],
            held_by=held_by,
            unknown=waiting["train"],
            turns=waiting["turn"],
            awaiting_letters=letters,
            workers=len(at_work),
            slots=sum(row.slots for row in at_work),
            busy=sum(row.busy for row in at_work),
            longest_wait=max((now - row.scheduled_at for row in heads), default=None),
            live_runs=tuple(_live_run(row, now) for row in runs),
            concerns=(
                yield from find_concerns(owner, now, letters=letters, heads=heads, workers=len(at_work))
            ),
        )

    def _glance(self) -> Operation[Glance]:
        waiting = {
            row.gate: _counted(row.entries, row.seen)
            for row in (yield from overview.count_waiting(self._owner))
        }
        live = {
            row.state: _counted(row.runs, row.seen)
            for row in (yield from overview.count_live_runs(self._owner))
        }
        letters = yield from overview.count_awaiting_letters(self._owner)
        ready = waiting.pop("open")
        return Glance(
            running=live["in_progress"],
            ready=ready,
            waiting=_sum(waiting.values()),
            awaiting_letters=_up_to(letters),
        )

    def _throughput(self) -> Operation[Throughput]:
        now = yield from read_now()
        first = now.replace(second=0, microsecond=0) - (CHART_MINUTES - 1) * _MINUTE
        ended = {row.at: row for row in (yield from count_ended_by_minute(self._owner, first))}
        return Throughput(
            minutes=tuple(_minute(first + index * _MINUTE, ended) for index in range(CHART_MINUTES))
        )


def _held(waiting: Mapping[str, Count]) -> Iterator[HeldEntries]:
    causes = (
        ("manifest", "their manifest runs or is switched off", "/queue?gate=manifest"),
        ("turn", "another entry of their manifest comes first", "/queue?status=waiting"),
        ("train", "no live worker has their train", "/queue?gate=train"),
    )
    for gate, said, place in causes:
        if waiting[gate].value:
            yield HeldEntries(said=said, count=waiting[gate], place=place)


def _held_group(row: Row) -> HeldEntries:
    full = f"group {row.name} is full: {row.active} of {row.max_active_jobs} runs"
    return HeldEntries(
        said=full if row.is_enabled else f"group {row.name} is switched off",
        count=Count(value=row.entries, is_at_least=row.entries >= waits.COUNTED_IN_GROUPS),
        place=f"/groups/{quote(row.name, safe='')}",
    )


def _sum(counts: Iterable[Count]) -> Count:
    found = list(counts)
    return Count(
        value=sum(count.value for count in found), is_at_least=any(count.is_at_least for count in found)
    )


def _counted(found: int, seen: int) -> Count:
    return Count(value=int(found), is_at_least=seen >= overview.COUNTED)


def _up_to(found: int) -> Count:
    return Count(value=found, is_at_least=found >= overview.COUNTED)


def _live_run(row: Row, now: datetime) -> LiveRun:
    return shown(
        LiveRun,
        row,
        running_for=max(now - row.start_time, timedelta(0)),
        junction=row.currently_running_junction,
    )


def _minute(at: datetime, ended: dict[datetime, Row]) -> MinuteCount:
    row = ended.get(at)
    if row is None:
        return MinuteCount(at=at, completed=0, failed=0, cancelled=0)
    return MinuteCount(at=at, completed=row.completed, failed=row.failed, cancelled=row.cancelled)
