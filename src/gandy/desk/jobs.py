"""One job as a whole: all its attempts, its dead letters, and who did what to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta  # noqa: TC003 the web interface reads annotations at run time
from typing import TYPE_CHECKING, Final

from gandy.desk.audit import AuditEntry, Listed, audit_entry, read_trail, shown
from gandy.desk.dead_letters import LetterSummary
from gandy.store.audit import DeedFilter, list_deeds
from gandy.store.reading.listings import list_letters_of_runs
from gandy.store.reading.waits import list_attempts

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation, Row

_DEEDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAttempt:
    """One attempt of a job: an entry of the queue, or its run of the same id."""

    id: int
    state: str
    attempt: int
    at: datetime  #: when it started; of an entry, its time
    took: timedelta | None
    failure_exception: str | None
    is_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStory:
    """What became of a job, and who had a hand in it."""

    attempts: tuple[JobAttempt, ...]
    letters: tuple[LetterSummary, ...]
    deeds: Listed[AuditEntry]


async def read_story(database: Database, job_id: int, owners: Owners) -> JobStory:
    """Collect the story of the job that an entry or a run belongs to."""
    return await database.read(_story(job_id, owners))


async def read_deeds(database: Database, on: str, owners: Owners) -> Listed[AuditEntry]:
    """Read the latest changes of one manifest or letter, or of a job by its id."""
    return await read_trail(database, owners, _latest(on))


def _latest(on: str) -> DeedFilter:
    return DeedFilter(subject=on, limit=_DEEDS, is_exact=True)


def _story(job_id: int, owners: Owners) -> Operation[JobStory]:
    rows = yield from list_attempts(job_id, owners)
    own = [row.dead_letter_id for row in rows if row.dead_letter_id is not None]
    letters = yield from list_letters_of_runs([row.id for row in rows], own, owners)
    return JobStory(
        attempts=tuple(_attempt(row) for row in rows),
        letters=tuple(shown(LetterSummary, row) for row in letters),
        deeds=Listed.of((yield from list_deeds(owners, _latest(str(job_id)))), audit_entry),
    )


def _attempt(row: Row) -> JobAttempt:
    return shown(JobAttempt, row, took=None if row.end_time is None else row.end_time - row.at)
