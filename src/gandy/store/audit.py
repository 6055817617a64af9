"""Records beside the work: the audit trail, idempotency keys of requests, web keys, and runs of cycles."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.settings.bounds import FIRST_INSTANT
from gandy.store.manifests import read_now
from gandy.store.reading.listings import below, search
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gandy.model.owners import Operator, Owners
    from gandy.store.reading.listings import Search
    from gandy.store.statements import Operation, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One change by an operator."""

    owner: str
    action: str  #: a verb and its object, as in "cancel run"
    subject: str
    detail: Mapping[str, object] | None = None
    about: Collection[int | str] = ()  #: what else changed: jobs by id, letters by `letter_subject`


def letter_subject(letter_id: int) -> str:
    """Return the name of a dead letter in the trail; a plain number is a job."""
    return f"dead letter {letter_id}"


def record_audit(operator: Operator, audited: AuditRecord) -> Operation[None]:
    """Record an action with its operator and interface."""
    recorded = yield statement(
        "record_audit",
        owner=audited.owner,
        actor=operator.name,
        face=operator.face,
        action=audited.action,
        subject=audited.subject,
        detail=None if audited.detail is None else json.dumps(audited.detail),
    )
    names = dict.fromkeys((audited.subject, *map(str, audited.about)))
    rows = [{"subject": name} for name in names]
    yield batch("record_audit_subjects", rows, owner=audited.owner, audit_id=recorded[0].id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeedFilter:
    """Which part of the audit trail to list; None does not filter."""

    by: str | None = None  #: the operator
    subject: str | None = None  #: the id of a job, a manifest, a group..., or of a dead letter
    since: timedelta | None = None  #: only the latest
    before: int | None = None
    limit: int = 50
    is_exact: bool = False  #: a number in `subject` is a job only, not a dead letter


WHOLE_TRAIL: Final = DeedFilter()


def list_deeds(owners: Owners, wanted: DeedFilter = WHOLE_TRAIL) -> Operation[Search]:
    """Read the audit trail, newest first."""
    letter = (
        None
        if wanted.subject is None
        else wanted.subject
        if wanted.is_exact
        else f"dead letter {wanted.subject}"
    )
    given = {
        "owner": owners.bound,
        "actor": wanted.by,
        "subject": wanted.subject,
        "letter": letter,
        "since": None if wanted.since is None else (yield from _ago(wanted.since)),
        "before": below(wanted.before),
    }
    gather = None if wanted.since is None else "gather_deeds"
    return (yield from search(_walk(wanted, owners), given, limit=wanted.limit, gather=gather))


def _walk(wanted: DeedFilter, owners: Owners) -> str:
    """Choose the most selective index."""
    if owners.bound is None:
        return "search_deeds"
    if wanted.subject is not None:
        return "search_deeds_on"
    return "search_deeds_of_owner" if wanted.by is None else "search_deeds_by"


def _ago(span: timedelta) -> Operation[datetime]:
    now = yield from read_now()
    return max(now, FIRST_INSTANT + span) - span


def find_switchers(owner: str, wanted: Sequence[tuple[str, str]]) -> Operation[dict[tuple[str, str], str]]:
    """Find who switched off manifests and groups, each given as its kind and its name."""
    rows = yield batch("find_switchers", [{"kind": kind, "name": name} for kind, name in wanted], owner=owner)
    return {(row.kind, row.name): row.actor for row in rows}


KEPT_FOR: Final = timedelta(days=1)


def find_answer(owner: str, key: str) -> Operation[int | None]:
    """Return the job of an earlier request with this idempotency key; if there was none, take the key."""
    seconds = KEPT_FOR.total_seconds()
    if (yield statement("take_request_key", owner=owner, key=key, keep_seconds=seconds)):
        return None
    rows = yield statement("find_key_holders", owner=owner, keys=[key])
    return int(rows[0].holder_id)


def keep_answer(owner: str, key: str, *, job_id: int) -> Operation[None]:
    """Record the job that the request created."""
    yield statement("keep_answer", owner=owner, key=key, holder_id=job_id)


KeyKind: TypeAlias = Literal["session", "code"]

#: The maximum number of keys of each kind for one token; the oldest are deleted.
MOST_KEYS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WebKey:
    """The stored part of a session or a code; it grants no access without the token's digest."""

    id: str
    secret: str
    token: str
    name: str


def keep_web_key(owner: str, kind: KeyKind, key: WebKey, *, keep_for: timedelta) -> Operation[None]:
    """Store a key, and delete the oldest beyond the limit."""
    yield statement("drop_surplus_web_keys", owner=owner, kind=kind, token=key.token, most=MOST_KEYS - 1)
    yield statement(
        "keep_web_key",
        id=key.id,
        owner=owner,
        kind=kind,
        secret=key.secret,
        token=key.token,
        name=key.name,
        keep_seconds=keep_for.total_seconds(),
    )


def find_web_key(owner: str, kind: KeyKind, id: str) -> Operation[WebKey | None]:
    """Read a key that has not expired."""
    return _key(id, (yield statement("find_web_key", id=id, owner=owner, kind=kind)))


def take_web_key(owner: str, kind: KeyKind, id: str) -> Operation[WebKey | None]:
    """Delete and return a key; only one of several callers gets it, and none once it has expired."""
    rows = yield statement("take_web_key", id=id, owner=owner, kind=kind)
    return _key(id, rows) if rows and rows[0].is_valid else None


def _key(id: str, rows: Rows) -> WebKey | None:
    return WebKey(id=id, secret=rows[0].secret, token=rows[0].token, name=rows[0].name) if rows else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministrativeRun:
    """A run that is first written when it has ended."""

    owner: str
    train: str
    is_failed: bool
    took: timedelta
    keep_for: timedelta
    output_json: str | None
    junctions_json: str
    failure_junction: str | None = None
    failure_exception: str | None = None
    failure_reason: str | None = None
    stack_trace: str | None = None


def record_run(run: AdministrativeRun) -> Operation[int]:
    """Write the run, and return its id."""
    rows = yield statement(
        "record_administrative_run",
        owner=run.owner,
        name=run.train,
        train_state="failed" if run.is_failed else "completed",
        took_seconds=run.took.total_seconds(),
        keep_seconds=run.keep_for.total_seconds(),
        output=run.output_json,
        junctions=run.junctions_json,
        failure_junction=run.failure_junction,
        failure_exception=run.failure_exception,
        failure_reason=run.failure_reason,
        stack_trace=run.stack_trace,
    )
    run_id: int = rows[0].id
    return run_id
