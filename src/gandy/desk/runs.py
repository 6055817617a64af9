"""Runs for operators, with masked payloads."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gandy.desk.audit import Listed, shown
from gandy.desk.choosing.texts import RUNS, search_listing
from gandy.errors import PayloadError, RunNotFoundError, RunNotStartedError
from gandy.model.layout import MASK
from gandy.model.run import ADMINISTRATIVE_TRAINS
from gandy.settings.bounds import as_span
from gandy.store import reports as logs
from gandy.store import runs
from gandy.store.owners import single_owner
from gandy.store.reading.waits import load_entry
from gandy.work.layouts import layouts_for, record_known

if TYPE_CHECKING:
    from gandy.model.layout import Layouts
    from gandy.model.owners import Owners
    from gandy.store.drivers.database import Database
    from gandy.store.owners import PayloadLayouts
    from gandy.store.reading.listings import RunFilter, Search
    from gandy.store.statements import Operation, Row
    from gandy.train.registry import Registry


Json: TypeAlias = Any  # an application's types as JSON

#: The rows of further reads where Gandy's own runs fill a page.
_FURTHER: Final = (500, 2_500)
_WHOLE_MASK: Final = "*** ("
_MASKED: Final = (
    "the input has a mask in place of a secret, and no stored secret to restore; write the secret itself"
)


def check_input(registry: Registry | None, train: str, text: str | None) -> None:
    """Refuse an input that the train would refuse; an unknown train checks it when it runs."""
    if text is not None and registry is not None and train in registry:
        registry.get(train).input.decode(text)


def edited_input(
    registry: Registry | None, owner: str, train: str, *, given: str, stored: str | None
) -> Operation[str]:
    """Return an edited input to store; an unchanged mask keeps the stored secret."""
    layouts = yield from layouts_for(registry, owner, train)
    text = with_stored_secrets(layouts.input, train, given=given, stored=stored)
    check_input(registry, train, text)
    yield from record_known(owner, registry, train)
    return text


def with_stored_secrets(layouts: Layouts, train: str, *, given: str, stored: str | None) -> str:
    """Replace masks by the stored secrets; refuse a mask without a stored secret."""
    try:
        value = json.loads(given)
        real = None if stored is None else json.loads(stored)
    except ValueError:
        return given  # decoding it by the train's type reports the error
    found: list[Json] = []
    result = _restored(value, layouts.shown(stored), real)
    layouts.replaced(result, found.append)
    if any(_is_mask(secret) for secret in found):
        raise PayloadError(train=train, part="input", problems=(_MASKED,))
    return given if result == value else json.dumps(result, ensure_ascii=False)


def _restored(given: Json, masked: Json, real: Json) -> Json:
    if given == masked:
        return real
    if isinstance(given, dict) and isinstance(masked, dict):
        return {
            key: _restored(each, masked[key], real[key]) if key in masked else each
            for key, each in given.items()
        }
    if isinstance(given, list) and isinstance(masked, list) and len(given) == len(masked):
        return [_restored(*each) for each in zip(given, masked, real, strict=True)]
    return given


def _is_mask(secret: Json) -> bool:
    if isinstance(secret, dict | list):
        return any(_is_mask(each) for each in (secret.values() if isinstance(secret, dict) else secret))
    return isinstance(secret, str) and (secret == MASK or secret.startswith(_WHOLE_MASK))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run in a listing."""

    id: int
    train: str
    state: str
    manifest: str | None
    attempt: int
    due_at: datetime | None
    start_time: datetime
    end_time: datetime | None
    took: timedelta | None
    owner: str
    failure_exception: str | None
    failure_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JunctionRun:
    """One junction of a run: its start relative to the run's start, and its duration."""

    junction: str
    started: timedelta
    took: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """All stored values of a run; secrets in its input and output are masked."""

    id: int
    train: str
    state: str
    owner: str
    manifest: str | None
    parent_id: int | None
    origin: str | None
    attempt: int
    due_at: datetime | None
    created_at: datetime
    start_time: datetime
    end_time: datetime | None
    took: timedelta | None
    input: Json
    output: Json
    junctions: tuple[JunctionRun, ...]
    currently_running_junction: str | None
    progress_done: int | None
    progress_total: int | None
    failure_junction: str | None
    failure_exception: str | None
    failure_reason: str | None
    stack_trace: str | None
    cancellation_requested: bool
    cancellation_reason: str | None
    worker_id: str | None
    keep_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One log line of a run."""

    id: int
    created_at: datetime
    level: str
    logger: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTally:
    """The runs of one train in one state."""

    train: str
    state: str
    runs: int
    average: timedelta | None
    longest: timedelta | None
    log_lines: int


class RunInsights:
    """Reads runs; masks every field that any version of their train declared as secret."""

    def __init__(self, database: Database, owners: Owners, registry: Registry | None = None) -> None:
        """Take the owners whose runs are visible, and the trains that declare secrets."""
        self._database = database
        self._owners = owners
        self._registry = registry

    async def list(self, wanted: RunFilter, *, with_own: bool = True) -> Listed[RunSummary]:
        """List the newest runs first; without Gandy's own trains if they are not wanted, nor named."""
        is_plain = with_own or wanted.train is not None
        operation = self._search(wanted) if is_plain else self._search_without_own(wanted)
        return Listed.of(await self._database.read(operation), _summary)

    async def show(self, run_id: int) -> RunDetail:
        """Show one run."""
        return await self._database.read(self._show(run_id))

    async def logs(self, run_id: int, *, limit: int = 1_000) -> tuple[LogEntry, ...]:
        """Read the log lines of one run, in order."""
        await self.show(run_id)
        rows = await self._database.read(logs.load_logs(run_id, self._owners, limit=limit))
        return tuple(shown(LogEntry, row) for row in rows)

    async def tally(self, since: datetime) -> tuple[TrainTally, ...]:
        """Count an application's runs since an instant, by train and state: the newest 100,000 at most."""
        rows = await self._database.read(runs.summarise_runs(single_owner(self._owners), since))
        return tuple(
            TrainTally(
                train=row.train,
                state=row.state,
                runs=row.runs,
                average=_span(row.average_seconds),
                longest=_span(row.longest_seconds),
                log_lines=int(row.lines),
            )
            for row in rows
        )

    def _search(self, wanted: RunFilter) -> Operation[Search]:
        return search_listing(RUNS, wanted, self._owners, registry=self._registry)

    def _search_without_own(self, wanted: RunFilter) -> Operation[Search]:
        """Read on where Gandy's own runs, which are kept for minutes, fill a page; a few times at most."""
        kept: list[Row] = []
        page = wanted
        for limit in (wanted.limit, *_FURTHER):
            page = replace(page, limit=limit)
            found = yield from self._search(page)
            kept += [row for row in found.rows if row.train not in ADMINISTRATIVE_TRAINS]
            if len(kept) >= wanted.limit:
                has_more = found.next is not None or len(kept) > wanted.limit
                shown_rows = kept[: wanted.limit]
                return replace(found, rows=shown_rows, next=shown_rows[-1].id if has_more else None)
            if found.next is None or found.is_cut or found.looked is not None:
                return replace(found, rows=kept)
            page = replace(page, before=int(found.next))
        return replace(found, rows=kept, is_cut=True)

    def _show(self, run_id: int) -> Operation[RunDetail]:
        row = yield from runs.load_run(run_id, self._owners)
        if row is None:
            entry = yield from load_entry(run_id, self._owners)
            raise RunNotFoundError(run_id) if entry is None else RunNotStartedError(run_id, entry.status)
        return _detail(row, (yield from layouts_for(self._registry, row.owner, row.train)))


def _detail(row: Row, layouts: PayloadLayouts) -> RunDetail:
    return shown(
        RunDetail,
        row,
        took=_took(row),
        input=layouts.input.shown(row.input),
        output=layouts.output.shown(row.output),
        junctions=_junctions(row.junctions),
    )


def _summary(row: Row) -> RunSummary:
    return shown(RunSummary, row, took=_took(row))


def _took(row: Row) -> timedelta | None:
    return None if row.end_time is None else row.end_time - row.start_time


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else as_span(seconds)


def _junctions(text: str | None) -> tuple[JunctionRun, ...]:
    return tuple(
        JunctionRun(
            junction=each["junction"],
            started=timedelta(microseconds=each["started_us"]),
            took=timedelta(microseconds=each["took_us"]),
        )
        for each in json.loads(text or "[]")
    )
