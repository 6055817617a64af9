"""Operators, what they did, and listings that say where they end."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 the faces read it at run time
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from gandy.model.owners import Operator
from gandy.settings.values import presentable
from gandy.store.audit import find_answer, keep_answer, list_deeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.model.owners import Face, Owners
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.reading.listings import Key, Search
    from gandy.store.statements import Operation, Row


def local_operator(face: Face) -> Operator:
    """Name the user of the operating system; one without a name is a number."""
    try:
        return Operator(presentable(getpass.getuser()), face)
    except (KeyError, OSError):
        return Operator(f"uid {os.getuid()}", face)


T = TypeVar("T")


class Listed(tuple[T, ...]):  # noqa: SLOT001 what is as long as a tuple cannot have any
    """What a page shows, and where to go on; a search that stopped early says so."""

    next: Key | None
    is_cut: bool

    @classmethod
    def of(cls, found: Search, shown: Callable[[Row], T]) -> Listed[T]:
        """Show each row."""
        listed = cls(map(shown, found.rows))
        listed.next = found.next
        listed.is_cut = found.is_cut
        return listed


Json: TypeAlias = Any  # what each deed says about itself


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change that a person asked for."""

    id: int
    at: datetime
    owner: str
    actor: str
    face: str
    action: str
    subject: str
    detail: Json


async def read_trail(
    database: ReadingRunner, owners: Owners, *, before: int | None = None, limit: int = 50
) -> Listed[AuditEntry]:
    """Read the trail, the newest first."""
    return Listed.of(await database.read(list_deeds(owners, before=before, limit=limit)), _entry)


def _entry(row: Row) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        at=row.at,
        owner=row.owner,
        actor=row.actor,
        face=row.face,
        action=row.action,
        subject=row.subject,
        detail=None if row.detail is None else json.loads(row.detail),
    )


class _Job(Protocol):
    @property
    def id(self) -> int: ...


class AnsweredBefore(Exception):  # noqa: N818 no error: the answer of an earlier request
    """The same request was served already."""

    def __init__(self, job_id: int) -> None:
        super().__init__(f"an earlier request came to job {job_id}")
        self.job_id = job_id


class IdempotentDatabase:
    """A database for one request: what it writes is written together with the request's key."""

    def __init__(self, database: ReadingRunner, *, owner: str, key: str) -> None:
        """Take the key that the sender chose."""
        self._database = database
        self._owner = owner
        self._key = f"request sha256:{hashlib.sha256(key.encode()).hexdigest()}"

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that writes nothing."""
        return await self._database.read(operation)

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation whose result is a job, unless an earlier request did."""
        return await self._database.run(self._once(operation))

    def _once(self, operation: Operation[T]) -> Operation[T]:
        earlier = yield from find_answer(self._owner, self._key)
        if earlier is not None:
            raise AnsweredBefore(earlier)
        result = yield from operation
        job = cast("_Job", result)
        yield from keep_answer(self._owner, self._key, job_id=job.id)
        return result
