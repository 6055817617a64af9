"""Explain why a manifest does or does not run, and list concerns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import (
    datetime,
    timedelta,
)
from typing import TYPE_CHECKING, Final

from gandy.desk.audit import shown
from gandy.desk.manifests import describe_schedule, describe_state, edges_in
from gandy.rules.recurring import guard_of
from gandy.settings import format_duration
from gandy.store.reading import overview
from gandy.store.reading.views import picture_of
from gandy.store.waiting import MOST_WAITING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.model.owners import Owners
    from gandy.store.drivers.database import Database
    from gandy.store.reading.views import ManifestPicture
    from gandy.store.statements import Operation, Row, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictLine:
    """The verdict on one instant, or on a series of instants."""

    due_at: datetime
    due_until: datetime | None
    occurrences: int
    verdict: str
    origin: str
    attempt: int
    entry_id: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one manifest does or does not run."""

    external_id: str
    train: str
    schedule: str
    state: str
    group: str
    now: datetime
    next_instant: datetime | None
    next_look: datetime | None
    holding_back: tuple[str, ...]
    what_to_do: tuple[str, ...]
    failure_count: int
    max_retries: int
    active_run_id: int | None
    last_successful_run: datetime | None
    dead_letter_id: int | None
    verdicts: tuple[VerdictLine, ...]


async def explain_manifest(database: Database, external_id: str, owners: Owners) -> Explanation:
    """Collect the state of a manifest, the reasons that hold it back and its latest verdicts."""
    picture = await database.read(picture_of(external_id, owners))
    row = picture.row
    reasons = tuple(_reasons(picture))
    return Explanation(
        external_id=row.external_id,
        train=row.name,
        schedule=describe_schedule(row, edges_in(picture)),
        state=describe_state(row, is_active=row.active_run_id is not None),
        group=row.group_name,
        now=row.now,
        next_instant=row.next_scheduled_run,
        next_look=row.next_look_at,
        holding_back=tuple(reason for reason, _ in reasons),
        what_to_do=tuple(advice for _, advice in reasons if advice),
        failure_count=row.failure_count,
        max_retries=row.max_retries,
        active_run_id=row.active_run_id,
        last_successful_run=row.last_successful_run,
        dead_letter_id=row.letter_id,
        verdicts=tuple(_line(verdict) for verdict in picture.verdicts),
    )


def _reasons(picture: ManifestPicture) -> Iterator[tuple[str, str | None]]:
    """Return the reasons that hold it back, each with its remedy."""
    row = picture.row
    yield from _switches(row)
    if picture.problem is not None:
        yield (
            f"its schedule cannot be read: {picture.problem}",
            "correct the schedule where it is declared or set",
        )
    if row.letter_id is not None:
        yield (
            f"it has an open dead letter since {row.dead_lettered_at:%Y-%m-%d %H:%M}Z: {row.letter_reason}",
            f"gandy dead-letters requeue {row.letter_id}, or acknowledge it",
        )
    if row.active_run_id is not None:
        yield f"run {row.active_run_id} is in progress", f"gandy runs show {row.active_run_id}"
    yield from _clock_reasons(picture)
    if row.waiting_id is not None:
        yield f"entry {row.waiting_id} ({row.waiting_origin}) {_waits_for(row)}", None
    if row.turns:
        yield _turns(row), "gandy queue list --status waiting"
    yield from _parent_reasons(picture)
    if row.completed_at is not None:
        yield f"it was to run once, and finished at {row.completed_at:%Y-%m-%d %H:%M}Z", None
    if guard_of(picture.view) is None and row.schedule_type == "none":
        yield "it has no schedule", f"gandy manifests trigger {row.external_id}"


def _switches(row: Row) -> Iterator[tuple[str, str | None]]:
    if row.orphaned_at is not None:
        yield "the application no longer declares it", "declare it again; otherwise it will be deleted"
    if not row.is_enabled:
        why = f": {row.disabled_reason}" if row.disabled_reason else ""
        yield f"it is disabled{why}", f"gandy manifests enable {row.external_id}"
    if not row.is_group_enabled:
        why = f": {row.group_disabled_reason}" if row.group_disabled_reason else ""
        yield f"its group {row.group_name} is disabled{why}", f"gandy groups set {row.group_name} --enable"


def _clock_reasons(picture: ManifestPicture) -> Iterator[tuple[str, str | None]]:
    """Report a next instant that only a wrong clock can have set, and one set by an operator."""
    view, row = picture.view, picture.row
    if picture.is_misplaced:
        yield (
            f"its next instant, {_told(view.next_scheduled_run)}, was set by a wrong clock",
            f"manifest-manager corrects it; or gandy manifests set {row.external_id} --next T",
        )
    if view.is_next_set:
        yield (
            f"an operator set its next instant to {_told(view.next_set_to)}",
            f"gandy manifests reset {row.external_id} restores its schedule",
        )


#: Of the ends of a parent: what has not happened since the dependent was last queued.
_NOT_YET: Final = {
    "success": "has not succeeded",
    "failure": "has not failed for good",
    "end": "has not ended",
}


def _parent_reasons(picture: ManifestPicture) -> Iterator[tuple[str, str | None]]:
    for parent in picture.parents:
        if parent.orphaned_at is not None:
            yield (
                f"its parent {parent.parent} is no longer declared, so it has no new runs",
                f"declare {parent.parent} again, or {picture.row.external_id} after other manifests",
            )
        if parent.kind == "activation":
            yield f"it runs only when a run of {parent.parent} activates it", None
            continue
        if not parent.is_enabled:
            yield f"its parent {parent.parent} is disabled", f"gandy manifests enable {parent.parent}"
        if parent.lacks_output:
            yield (
                f"{parent.parent} has succeeded, but that output is gone: it waits for the next success",
                f"gandy manifests trigger {parent.parent}, or {picture.row.external_id} --input JSON",
            )
        elif parent.ended <= parent.seen:
            yield f"{parent.parent} {_NOT_YET[parent.kind]} since it was last queued", None
    if picture.row.schedule_type == "dependent" and not picture.parents:
        yield "it has no parent of this application", "declare it after other manifests"


def _waits_for(row: Row) -> str:
    if row.waiting_gate == "open" and row.waiting_until_at > row.now:
        return f"waits for {_told(row.waiting_until_at)}, which a wrong clock treated as past"
    match row.waiting_gate:
        case "time":
            return f"waits for {_told(row.waiting_until_at)}"
        case "manifest":
            return "waits until the previous run ends or the manifest is enabled"
        case "train":
            return "waits for a worker that has its train"
        case _:
            return "is ready for a worker"


def _told(instant: datetime | None) -> str:
    return "none" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}Z"


def _turns(row: Row) -> str:
    if row.turns == 1:
        return f"entry {row.next_turn_id} waits for its turn"
    number = f"more than {MOST_WAITING}" if row.turns > MOST_WAITING else row.turns
    return f"{number} entries wait for their turn, entry {row.next_turn_id} first"


def _line(verdict: Row) -> VerdictLine:
    skipped = verdict.status == "skipped"
    return shown(
        VerdictLine,
        verdict,
        verdict=f"skipped: {verdict.reason}" if skipped else verdict.status,
        entry_id=verdict.id,
    )


_PATIENCE: Final = timedelta(seconds=30)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number; a lower bound if counting stopped early."""

    value: int
    is_at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """A problem for an operator, its urgency, and the page with details."""

    kind: str
    said: str
    place: str
    is_urgent: bool


def find_concerns(
    owner: str, now: datetime, *, letters: Count, heads: Rows, workers: int
) -> Operation[tuple[Concern, ...]]:
    """Collect all concerns, the urgent ones first."""
    found = [*_letters(letters), *_waits(now, heads, workers)]
    for worker in (yield from overview.list_lost_workers(owner)):
        said = f"worker {worker.id[:8]} on {worker.host} (pid {worker.pid}) lost its lease without a shutdown"
        found.append(Concern(kind="lost worker", said=said, place="/workers", is_urgent=False))
    for row in (yield from overview.list_unknown_trains(owner)):
        said = f"no live worker has train {row.train}; {row.entries} entries wait for it"
        found.append(Concern(kind="unknown train", said=said, place="/queue?gate=train", is_urgent=True))
    late = yield from overview.find_most_overdue(owner, _PATIENCE)
    if late is not None:
        waited = _rounded(now - late.next_look_at)
        said = f"{late.external_id} is {waited} overdue for evaluation; is a manifest-manager running?"
        place = f"/manifests/{late.external_id}"
        found.append(Concern(kind="behind", said=said, place=place, is_urgent=True))
    return tuple(sorted(found, key=lambda concern: not concern.is_urgent))


def _letters(letters: Count) -> Iterator[Concern]:
    many = f"{letters.value} or more" if letters.is_at_least else str(letters.value)
    said = (
        f"{many} dead letters wait for a decision"
        if letters.value > 1
        else "a dead letter waits for a decision"
    )
    if letters.value:
        yield Concern(kind="dead letters", said=said, place="/dead-letters", is_urgent=True)


def _waits(now: datetime, heads: Rows, workers: int) -> Iterator[Concern]:
    late = [row for row in heads if row.is_enabled and now - row.scheduled_at > _PATIENCE]
    if late and not workers:
        said = f"no worker is running; the oldest entry has waited {_rounded(now - late[0].scheduled_at)}"
        yield Concern(kind="no worker", said=said, place="/workers", is_urgent=True)
        return
    for row in late:
        cap = f"; its cap is {row.max_active_jobs}" if row.max_active_jobs else ""
        said = f"group {row.name}: the next entry has waited {_rounded(now - row.scheduled_at)}{cap}"
        yield Concern(kind="lag", said=said, place=f"/groups/{row.name}", is_urgent=False)


def _rounded(span: timedelta) -> str:
    return format_duration(span // _SECOND * _SECOND)
