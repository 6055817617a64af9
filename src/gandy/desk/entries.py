"""Entries of the queue for operators: one entry with its input, and why it waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta  # noqa: TC003 the web interface reads annotations at run time
from typing import TYPE_CHECKING, Any, TypeAlias

from gandy.desk.audit import shown
from gandy.errors import EntryOverError, JobNotFoundError
from gandy.settings.bounds import Timeout, as_span, as_timeout
from gandy.store.reading.waits import COUNTED, count_ahead, load_entry, load_waits
from gandy.store.runs import load_run
from gandy.work.layouts import layouts_for

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from gandy.settings import Settings
    from gandy.store.reading.waits import Wait
    from gandy.store.statements import Operation, Row
    from gandy.train.registry import Registry

Json: TypeAlias = Any  # an application's types as JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySummary:
    """An entry of the queue; its run has the same id."""

    id: int
    train: str
    manifest: str | None
    group: str | None
    status: str
    gate: str | None  #: of a queued entry: open, time, manifest or train
    waits_for: str | None  #: nothing, time, manifest, group, cap, train or worker; None: it waits no more
    why: str | None  #: the same in words
    reason: str | None
    origin: str
    priority: int
    attempt: int
    due_at: datetime
    due_until: datetime | None
    occurrences: int
    scheduled_at: datetime
    created_at: datetime
    dispatched_at: datetime | None
    dead_letter_id: int | None
    error: str | None
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDetail:
    """All that is known of an entry; secrets in its input are masked."""

    id: int
    train: str
    status: str
    state: str  #: the status; of a dispatched entry, the state of its run
    waits_for: str | None
    why: str | None
    what_to_do: str | None
    owner: str
    manifest: str | None
    group: str | None
    gate: str | None
    reason: str | None
    error: str | None
    origin: str
    priority: int
    attempt: int
    ahead: int | None  #: of a ready entry: those of its group that start before it, counted up to 10,000
    due_at: datetime
    due_until: datetime | None
    occurrences: int
    scheduled_at: datetime
    created_at: datetime
    dispatched_at: datetime | None
    settled_at: datetime | None
    input: Json
    max_retries: int | None  #: None: the manifest's; likewise the next three
    retry: bool | None
    retry_delay: timedelta | None
    timeout: Timeout | None
    failures: int
    losses: int
    dead_letter_id: int | None
    retry_of: int | None
    parent_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCondition:
    """One condition of the start of an entry."""

    condition: str
    holds: bool
    why: str
    what_to_do: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryExplanation:
    """Why an entry has not started: every condition, in the order in which they count."""

    id: int
    train: str
    manifest: str | None
    group: str | None
    status: str
    waits_for: str | None
    why: str
    ahead: int | None
    conditions: tuple[EntryCondition, ...]
    what_to_do: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryPicture:
    """One entry, and the judgement about it."""

    row: Row
    wait: Wait | None  #: None: it waits no more
    ahead: int | None


def global_cap(settings: Settings) -> int | None:
    """Return the cap that claims of workers keep; `auto` limits only what is handed to others."""
    cap = settings.dispatcher.max_active_jobs
    return cap if isinstance(cap, int) else None


def picture_entry(entry_id: int, owners: Owners, *, cap: int | None) -> Operation[EntryPicture]:
    """Read an entry; raise if its run has ended, or if there is no such job."""
    row = yield from load_entry(entry_id, owners)
    if row is None:
        run = yield from load_run(entry_id, owners)
        raise JobNotFoundError(entry_id) if run is None else EntryOverError(entry_id, run.state)
    waits = yield from load_waits([entry_id], owners, max_active_jobs=cap)
    wait = waits.get(entry_id)
    is_ready = wait is not None and wait.place is not None and wait.waits_for not in {"time", "manifest"}
    ahead = (yield from count_ahead(row, *wait.place)) if wait and wait.place and is_ready else None
    return EntryPicture(row, wait, ahead)


def entry_summary(row: Row, wait: Wait | None, now: datetime) -> EntrySummary:
    """Return an entry of a listing."""
    return shown(
        EntrySummary,
        row,
        group=row.group_name,
        gate=_gate(row, now),
        waits_for=wait and wait.waits_for,
        why=wait and wait.why,
    )


def entry_detail(picture: EntryPicture, registry: Registry | None, now: datetime) -> Operation[EntryDetail]:
    """Return an entry with its input."""
    row, wait = picture.row, picture.wait
    layouts = yield from layouts_for(registry, row.owner, row.train)
    return shown(
        EntryDetail,
        row,
        group=row.group_name,
        gate=_gate(row, now),
        waits_for=wait and wait.waits_for,
        why=wait and wait.why,
        what_to_do=wait and wait.what_to_do,
        ahead=picture.ahead,
        input=layouts.input.shown(row.input),
        retry=row.is_retried,
        retry_delay=None if row.retry_delay_seconds is None else as_span(row.retry_delay_seconds),
        timeout=as_timeout(row.timeout_seconds),
    )


def entry_explanation(picture: EntryPicture) -> EntryExplanation:
    """Return every condition of an entry, with what to do about those that do not hold."""
    row, wait = picture.row, picture.wait
    conditions = () if wait is None else wait.conditions
    return shown(
        EntryExplanation,
        row,
        group=row.group_name,
        waits_for=wait and wait.waits_for,
        why=_why_no_more(row) if wait is None else _with_place(wait, picture.ahead),
        ahead=picture.ahead,
        conditions=tuple(
            EntryCondition(
                condition=each.condition, holds=each.holds, why=each.why, what_to_do=each.what_to_do
            )
            for each in conditions
        ),
        what_to_do=tuple(each.what_to_do for each in conditions if each.what_to_do is not None),
    )


def _with_place(wait: Wait, ahead: int | None) -> str:
    if not ahead:
        return wait.why
    many = f"{COUNTED:,} or more" if ahead >= COUNTED else f"{ahead:,}"
    return f"{wait.why}; {many} of its group come first"


def _why_no_more(row: Row) -> str:
    match row.status:
        case "dispatched":
            return f"it waits no more: its run is in progress; see: gandy runs show {row.id}"
        case "skipped":
            return f"it was skipped: {row.reason}" + (f": {row.error}" if row.error else "")
        case _:
            return f"it was cancelled; see: gandy audit list --on {row.id}"


def _gate(row: Row, now: datetime) -> str | None:
    """Return the gate of a queued entry; one that opened too early, by a wrong clock, counts as closed."""
    if row.status != "queued":
        return None
    return "time" if row.gate == "open" and row.scheduled_at > now else str(row.gate)
