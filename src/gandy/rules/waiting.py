"""Why a queued entry waits: the conditions that a claim checks, in words and with their remedies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.settings import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Cause: TypeAlias = Literal["nothing", "time", "manifest", "group", "cap", "train", "worker"]

_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestState:
    """What of its manifest decides about an entry."""

    external_id: str
    is_enabled: bool
    is_orphaned: bool
    disabled_reason: str | None
    active_run_id: int | None
    dead_letter_id: int | None
    is_parking: bool  #: its failures have reached the limit, and the dead letter is about to be written


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """What of its group decides about an entry."""

    name: str
    is_enabled: bool
    disabled_reason: str | None
    max_active_jobs: int | None
    active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWorker:
    """A worker with a valid lease."""

    trains: frozenset[str]
    slots: int
    busy: int
    is_draining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What decides about all entries of an application."""

    now: datetime
    workers: Sequence[LiveWorker]
    max_active_jobs: int | None  #: the global cap of the settings; None: there is none
    active: int  #: live runs of the application, counted if there is a cap


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEntry:
    """A queued or waiting entry, or the pending run that it has become."""

    id: int
    train: str
    origin: str
    scheduled_at: datetime
    is_turn: bool  #: False: it waits behind another entry of its manifest
    is_pending: bool  #: a dispatcher has taken it, and no worker has begun it
    queued_id: int | None  #: the entry of its manifest that is before it
    manifest: ManifestState | None
    is_stray: bool  #: its manifest is gone
    group: GroupState
    disabled_by: str | None = None  #: the operator who switched off its manifest, if that is known
    group_disabled_by: str | None = None

    @property
    def is_trigger(self) -> bool:
        """Whether an operator triggered it: it runs although its manifest or group is switched off."""
        return self.origin == "trigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of a claim."""

    condition: str
    holds: bool
    cause: Cause  #: what the entry waits for if the condition does not hold
    why: str
    what_to_do: str | None = None


def conditions_of(entry: WaitingEntry, around: Surroundings) -> tuple[Condition, ...]:
    """Return all conditions; the entry waits for the first that does not hold."""
    return tuple(_conditions(entry, around))


def first_cause(conditions: Iterable[Condition]) -> Condition | None:
    """Return what the entry waits for; None: it is ready."""
    return next((each for each in conditions if not each.holds), None)


def ready_words(entry: WaitingEntry, around: Surroundings) -> str:
    """Describe an entry that waits for nothing: a worker takes it now, or when a slot is free."""
    known = [each for each in around.workers if not each.is_draining and entry.train in each.trains]
    slots, busy = sum(each.slots for each in known), sum(each.busy for each in known)
    if busy >= slots:
        return f"it is ready, and starts when a slot is free: {busy} of {slots} are busy"
    return "it is ready, and the next poll of a worker takes it"


def _conditions(entry: WaitingEntry, around: Surroundings) -> Iterator[Condition]:
    if not entry.is_pending:
        yield from _switches(entry)
        yield _time(entry, around.now)
        yield from _turn(entry)
    yield from _workers(entry, around)
    if not entry.is_pending:
        yield from _caps(entry, around)


def _switches(entry: WaitingEntry) -> Iterator[Condition]:
    manifest, group = entry.manifest, entry.group
    if entry.is_stray:
        yield _is(
            "its manifest exists",
            "manifest",
            problem="its manifest is gone",
            advice=f"gandy queue cancel {entry.id}",
        )
    if manifest is not None:
        name = manifest.external_id
        orphaned = f"the application no longer declares manifest {name}" if manifest.is_orphaned else None
        off = _off(f"manifest {name}", entry.disabled_by, manifest.disabled_reason)
        yield _is(
            "its manifest is declared",
            "manifest",
            problem=None if entry.is_trigger else orphaned,
            fine=_passed(orphaned) or f"manifest {name} is declared",
            advice=f"declare it again, or gandy queue cancel {entry.id}",
        )
        yield _is(
            "its manifest is enabled",
            "manifest",
            problem=None if manifest.is_enabled or entry.is_trigger else off,
            fine=f"manifest {name} is enabled" if manifest.is_enabled else _passed(off),
            advice=f"gandy manifests enable {name}",
        )
    off = _off(f"group {group.name}", entry.group_disabled_by, group.disabled_reason)
    yield _is(
        "its group is enabled",
        "group",
        problem=None if group.is_enabled or entry.is_trigger else off,
        fine=f"group {group.name} is enabled" if group.is_enabled else _passed(off),
        advice=f"gandy groups set {group.name} --enable",
    )


def _time(entry: WaitingEntry, now: datetime) -> Condition:
    left = entry.scheduled_at - now
    instant = f"{entry.scheduled_at:%Y-%m-%d %H:%M:%S}Z"
    is_due = left <= timedelta(0)
    return Condition(
        condition="its time has come",
        holds=is_due,
        cause="time",
        why=f"it was due at {instant}" if is_due else f"its time is {instant}, in {_rounded(left)}",
    )


def _turn(entry: WaitingEntry) -> Iterator[Condition]:
    manifest = entry.manifest
    if manifest is None:
        return
    name, run_id, letter_id = manifest.external_id, manifest.active_run_id, manifest.dead_letter_id
    yield _is(
        "its manifest is idle",
        "manifest",
        problem=None if run_id is None else f"run {run_id} of manifest {name} has not ended",
        fine=f"manifest {name} has no other run",
        advice=f"gandy runs show {run_id}",
    )
    if entry.is_turn:
        return
    ahead = entry.queued_id
    yield _is(
        "it is the next of its manifest",
        "manifest",
        problem=None if ahead is None else f"entry {ahead} of manifest {name} comes first",
        fine="no other entry of its manifest is queued",
        advice=f"gandy queue explain {ahead}",
    )
    parked = f"manifest {name} has the open dead letter {letter_id}"
    is_held = not entry.is_trigger and (letter_id is not None or manifest.is_parking)
    yield _is(
        "its manifest has no open dead letter",
        "manifest",
        problem=None if not is_held else parked if letter_id else f"manifest {name} is about to be parked",
        fine="it has no open dead letter" if letter_id is None else _passed(parked),
        advice=None if letter_id is None else f"gandy dead-letters requeue {letter_id}, or acknowledge it",
    )


def _workers(entry: WaitingEntry, around: Surroundings) -> Iterator[Condition]:
    able = [each for each in around.workers if not each.is_draining]
    why_none = "all live workers drain" if around.workers else "no worker is alive"
    count = "a worker is alive" if len(able) == 1 else f"{len(able)} workers are alive"
    yield _is(
        "a worker is alive",
        "worker",
        problem=None if able else why_none,
        fine=count,
        advice="start one: gandy up, or gandy work",
    )
    if not able:
        return
    known = [each for each in able if entry.train in each.trains]
    yield _is(
        "a worker has its train",
        "train",
        problem=None if known else f"no live worker has train {entry.train}",
        fine=f"{len(known)} of them {'has' if len(known) == 1 else 'have'} train {entry.train}",
        advice=f"start a worker whose application has train {entry.train}, or gandy queue cancel {entry.id}",
    )


def _caps(entry: WaitingEntry, around: Surroundings) -> Iterator[Condition]:
    group, cap = entry.group, around.max_active_jobs
    if group.max_active_jobs is not None:
        used = f"{group.active} of {group.max_active_jobs} runs"
        yield _is(
            "its group has room",
            "group",
            problem=f"group {group.name} is full: {used}" if group.active >= group.max_active_jobs else None,
            fine=f"group {group.name} has room: {used}",
            advice=f"wait for a run to end, or gandy groups set {group.name} --max-active N",
        )
    if cap is not None:
        used = f"{around.active} of {cap} runs"
        yield _is(
            "the global cap has room",
            "cap",
            problem=f"the global cap is full: {used}" if around.active >= cap else None,
            fine=f"the global cap has room: {used}",
            advice="wait for a run to end, or raise dispatcher.max_active_jobs in the settings",
        )


def _is(
    condition: str, cause: Cause, *, problem: str | None, fine: str | None = None, advice: str | None = None
) -> Condition:
    """Make a condition that holds unless there is a problem."""
    if problem is None:
        return Condition(condition=condition, holds=True, cause=cause, why=fine or condition)
    return Condition(condition=condition, holds=False, cause=cause, why=problem, what_to_do=advice)


def _off(what: str, by: str | None, reason: str | None) -> str:
    by = f" by {by}" if by else ""
    return f"{what} is switched off{by}{f': {reason}' if reason else ''}"


def _passed(problem: str | None) -> str | None:
    """Describe a condition that an operator's trigger does not need."""
    return None if problem is None else f"{problem}; a trigger runs all the same"


def _rounded(span: timedelta) -> str:
    return format_duration(max(span // _SECOND * _SECOND, _SECOND))
