"""Queueing work, and triggering manifests."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.errors import (
    ManifestDeclaredError,
    ManifestInUseError,
    ManifestNotFoundError,
    TriggerInputConflictError,
    TriggerInputMissingError,
)
from gandy.model.manifest import DEFAULT_GROUP
from gandy.store.overriding import ensure_groups
from gandy.store.statements import batch, batch_of, statement
from gandy.store.waiting import input_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.settings.bounds import Timeout
    from gandy.store.statements import Batch, Operation, Row


_log = logging.getLogger("gandy.queueing")

UniqueUntil: TypeAlias = Literal["start", "success"]
_Job: TypeAlias = "tuple[int | None, str | None, str | None]"  # id (None: assigned later), input, unique key

_LONGEST_KEY: Final = 200
_CHUNK: Final = 5_000
_OPENED_AT_ONCE: Final = 1_000
_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniqueness:
    """How long another request with the same idempotency key returns this job."""

    keys: Sequence[str]  #: one for each input
    until: UniqueUntil = "start"
    keep_for: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueRequest:
    """A train and the inputs to run it with."""

    owner: str
    train: str
    inputs: Sequence[str | None]
    input_type_name: str
    group: str = DEFAULT_GROUP
    priority: int | None = None  #: None: the group's
    delay: timedelta = timedelta(0)
    max_retries: int | None = None
    is_retried: bool | None = None
    retry_delay: timedelta | None = None
    timeout: Timeout | None = None
    uniqueness: Uniqueness | None = None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The entries of the work, in the order of the inputs; `existing` ones were queued before."""

    ids: tuple[int, ...]
    existing: frozenset[int] = field(default_factory=frozenset)


def uniqueness_key(train: str, canonical_input: str, *, is_secret: bool = False) -> str:
    """Build the idempotency key of a job from its train and input; a secret or long one is hashed."""
    text = f"{train} {canonical_input}"
    if len(text) <= _LONGEST_KEY and not is_secret:
        return text
    return f"{train[:100]} sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def is_one_statement(request: EnqueueRequest) -> bool:
    """Return whether a single statement queues the work, apart from the creation of its group."""
    return request.uniqueness is None and len(request.inputs) <= _CHUNK


def enqueue(request: EnqueueRequest) -> Operation[Enqueued]:
    """Queue the work and notify the workers; on a caller's connection, the caller commits."""
    if request.uniqueness is None:
        ids = yield from _insert(request, [(None, text, None) for text in request.inputs])
        existing: frozenset[int] = frozenset()
    else:
        ids, existing = yield from _insert_unique(request, request.uniqueness)
    return Enqueued(tuple(ids), existing)


def _insert(request: EnqueueRequest, jobs: Sequence[_Job]) -> Operation[list[int]]:
    ids: list[int] = []
    for start in range(0, len(jobs), _CHUNK):
        chunk = jobs[start : start + _CHUNK]
        rows = yield _queue_work(request, chunk)
        if not rows:  # the group does not exist yet
            yield from ensure_groups(request.owner, [request.group])
            rows = yield _queue_work(request, chunk)
        ids += [row.id for row in rows]
    return ids


def _queue_work(request: EnqueueRequest, jobs: Sequence[_Job]) -> Batch:
    return batch_of(
        "queue_work",
        ("id", "input", "unique_key"),
        jobs,
        owner=request.owner,
        train_name=request.train,
        input_type_name=request.input_type_name,
        group=request.group,
        priority=request.priority,
        delay_seconds=request.delay.total_seconds(),
        max_retries=request.max_retries,
        is_retried=request.is_retried,
        retry_delay_seconds=_seconds(request.retry_delay),
        timeout_seconds=_seconds(request.timeout),
        wake=f"{'later' if request.delay else 'work'}:{request.owner}",
    )


def _insert_unique(
    request: EnqueueRequest, uniqueness: Uniqueness
) -> Operation[tuple[list[int], frozenset[int]]]:
    """Take each key once; other jobs with the same key get the id of its holder."""
    input_of = dict(zip(reversed(uniqueness.keys), reversed(request.inputs), strict=True))
    holders: dict[str, int] = {}
    taken: dict[str, int] = {}
    for _ in range(_TRIES):  # a key may be released between the two statements: then try again
        missing = [{"key": key} for key in input_of if key not in holders]
        rows = yield batch(
            "take_unique_keys",
            missing,
            owner=request.owner,
            held_until=uniqueness.until,
            keep_seconds=_seconds(uniqueness.keep_for),
        )
        taken.update((row.key, row.holder_id) for row in rows)
        holders.update(taken)
        rest = [key for key in input_of if key not in holders]
        found = (yield statement("find_key_holders", owner=request.owner, keys=rest)) if rest else []
        holders.update((row.key, row.holder_id) for row in found)
        if len(holders) == len(input_of):
            break
    yield from _insert(request, [(holder, input_of[key], key) for key, holder in taken.items()])
    ids = [holders[key] for key in uniqueness.keys]
    return ids, frozenset(ids).difference(taken.values())


def _seconds(span: Timeout | None) -> float | None:
    return None if span is None else span.total_seconds()


_AT_ONCE: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Triggered:
    """The entry that will run; its id is the run's."""

    id: int
    external_id: str
    scheduled_at: datetime
    is_new: bool  #: False: it was queued already, and runs at the earlier of the two instants


def trigger(
    external_id: str, *, owner: str, delay: timedelta = _AT_ONCE, input_json: str | None = None
) -> Operation[Triggered]:
    """Queue a manifest, switched off or not; if an entry is already queued, that entry is reused."""
    manifest = yield from lock_manifest(external_id, owner=owner)
    seconds = delay.total_seconds()
    text = input_json
    if text is None:
        text = manifest.properties or (yield from _passed_output(manifest))
    of = {"manifest_id": manifest.id, "owner": owner}
    rows = yield statement("queue_trigger", input=text, delay_seconds=seconds, **of)
    is_new = bool(rows)
    if not rows:
        waiting = yield statement("find_waiting", **of)
        if input_json is not None and input_digest(waiting[0].input) != input_digest(input_json):
            raise TriggerInputConflictError(external_id, waiting[0].id)
        is_off = not (manifest.is_enabled and manifest.is_group_enabled)
        rows = yield statement(
            "move_entry_earlier", id=waiting[0].id, owner=owner, delay_seconds=seconds, is_off=is_off
        )
    yield statement("notify", payload=f"{'later' if delay else 'work'}:{owner}")
    return Triggered(rows[0].id, external_id, rows[0].scheduled_at, is_new)


def _passed_output(manifest: Row) -> Operation[str | None]:
    """Return the newest output of the parent if that is the manifest's input."""
    found = yield statement("load_passed_output", manifest_id=manifest.id)
    if found and found[0].output is None:
        raise TriggerInputMissingError(manifest.external_id, found[0].parent)
    return found[0].output if found else None


def trigger_group(owner: str, name: str) -> Operation[tuple[Triggered, ...]]:
    """Queue every manifest of a group."""
    members = yield statement("list_group_members", owner=owner, name=name)
    triggered: list[Triggered] = []
    for member in members:
        try:
            triggered.append((yield from trigger(member.external_id, owner=owner)))
        except TriggerInputMissingError as missing:  # the others of the group are queued all the same
            _log.warning("%s", missing)
    return tuple(triggered)


@dataclass(frozen=True, slots=True)
class RemovedManifest:
    """What became of a manifest to remove; true if it is gone."""

    is_gone: bool  #: False: it still runs, and is removed when that run ends
    cancelled_entries: int  #: queued and waiting ones

    def __bool__(self) -> bool:
        return self.is_gone


def remove_manifest(external_id: str, *, owner: str) -> Operation[RemovedManifest]:
    """Remove a manifest with its queued and waiting entries."""
    yield statement("lock_seeding", owner=owner)  # no dependent of it is added meanwhile
    manifest = yield from lock_manifest(external_id, owner=owner)
    if manifest.origin == "declared" and not manifest.is_orphaned:
        raise ManifestDeclaredError(external_id)
    of = {"manifest_id": manifest.id, "owner": owner}
    found = (yield statement("find_removal_blockers", **of))[0]
    if found.dependent is not None:
        raise ManifestInUseError(external_id, f"{found.dependent!r} depends on it; remove that first")
    if found.letter_id is not None:
        raise ManifestInUseError(
            external_id, f"dead letter {found.letter_id} is unresolved; requeue or acknowledge it first"
        )
    cancelled = len((yield statement("cancel_waiting", **of)))
    if found.active_run_id is not None:
        yield statement("orphan_manifest", **of)
        return RemovedManifest(is_gone=False, cancelled_entries=cancelled)
    yield statement("forget_letters", **of)
    yield statement("delete_manifest", **of)
    return RemovedManifest(is_gone=True, cancelled_entries=cancelled)


def lock_manifest(external_id: str, *, owner: str) -> Operation[Row]:
    """Find a manifest of this owner and lock its row."""
    rows = yield statement("lock_manifest", external_id=external_id, owner=owner)
    if not rows:
        raise ManifestNotFoundError(external_id)
    return rows[0]


def open_due(owner: str) -> Operation[int]:
    """Open the gate of entries whose instant has come."""
    return len((yield statement("open_due", owner=owner, limit=_OPENED_AT_ONCE)))


def open_all_due(owner: str) -> Operation[bool]:
    """Open entries whose instant has come; False: some are left, or another transaction is opening them."""
    yield from open_due(owner)
    seconds = yield from next_due(owner)
    return seconds is None or seconds > 0


def next_due(owner: str) -> Operation[float | None]:
    """Return the seconds until the next entry is due."""
    rows = yield statement("next_due", owner=owner)
    return rows[0].seconds if rows else None


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a claim would find work, whether any worker's would, and when the next entry is due."""

    has_work: bool
    is_empty: bool
    next_due: float | None  #: in seconds


def look_out(owner: str, trains: Sequence[str]) -> Operation[Outlook]:
    """Open due entries, and look in the same transaction whether anything is ready or pending."""
    yield from open_due(owner)
    seconds = yield from next_due(owner)
    pending = yield statement("count_pending", owner=owner, limit=1)
    rows = yield statement("ready_groups", owner=owner, worker_id=None)
    has_pending, known = pending[0].pending > 0, frozenset(trains)
    has_work = has_pending or any(row.train_name in known for row in rows)
    return Outlook(has_work, is_empty=not has_pending and not rows, next_due=seconds)


def hold_unknown(owner: str, trains: Sequence[str]) -> Operation[int]:
    """Hold entries of trains that no live worker knows, so that they do not block others."""
    rows = yield statement("hold_unknown_trains", owner=owner, trains=list(trains), limit=_OPENED_AT_ONCE)
    return len(rows)
