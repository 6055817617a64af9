"""Operators and their audit trail, rows and pages as they are shown, and idempotent requests."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import socket
from dataclasses import dataclass, fields
from datetime import datetime  # noqa: TC003 the web interface reads annotations at run time
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from gandy.model.owners import Operator
from gandy.settings.values import presentable
from gandy.store.audit import WHOLE_TRAIL, find_answer, keep_answer, list_deeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from _typeshed import DataclassInstance

    from gandy.errors import GandyError
    from gandy.model.owners import Face, Owners
    from gandy.store.audit import DeedFilter
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.reading.listings import Key, Search, SearchedRows
    from gandy.store.statements import Operation, Row


def local_operator(face: Face) -> Operator:
    """Return the user of the operating system as operator; without a user name, its uid."""
    try:
        return Operator(presentable(getpass.getuser()), face)
    except (KeyError, OSError):
        return Operator(f"uid {os.getuid()}", face)


def python_operator(name: str | None = None) -> Operator:
    """Return the operator that Python code names, or the user and the host that it runs as and on."""
    if name is not None:
        return Operator(name, "python")
    user = local_operator("python").name
    return Operator(presentable(f"python:{user}@{socket.gethostname()}"), "python")


T = TypeVar("T")


class Listed(tuple[T, ...]):  # noqa: SLOT001 a subclass of tuple cannot have slots
    """One page of a listing, the key of the next page, and whether the search stopped early."""

    next: Key | None
    is_cut: bool
    looked: SearchedRows | None  #: how far a search in texts looked; None: it was none
    unknown: GandyError | None  #: nothing was found, and nothing has a name of the filter

    @classmethod
    def of(cls, found: Search, convert: Callable[[Row], T]) -> Self:
        """Convert each row."""
        listed = cls(map(convert, found.rows))
        listed.next = found.next
        listed.is_cut = found.is_cut
        listed.looked = found.looked
        listed.unknown = found.unknown
        return listed

    @classmethod
    def all_of(cls, items: Iterable[T], *, is_cut: bool) -> Listed[T]:
        """List what has no next page."""
        listed = cls(items)
        listed.next = None
        listed.is_cut = is_cut
        listed.looked = None
        listed.unknown = None
        return listed


Shown = TypeVar("Shown", bound="DataclassInstance")


def shown(cls: type[Shown], row: Row, /, **computed: object) -> Shown:
    """Make a dataclass of the row's columns of the same names, and of the computed values.

    A column is copied as it is stored: what must be masked or decoded has to be given. A field that is
    neither a column nor given is an error.
    """
    for name in _copied(cls, tuple(computed)):
        computed[name] = getattr(row, name)
    return cls(**computed)


@cache
def _copied(cls: type[DataclassInstance], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields that the row has to fill; cached, because listings ask for every row."""
    names = tuple(field.name for field in fields(cls) if field.name not in given)
    if hidden := [name for name in names if hasattr(tuple, name)]:
        raise TypeError(f"{cls.__name__}.{hidden[0]} has to be given: on every row, it is a method of tuple")
    return names


Json: TypeAlias = Any  # depends on the action


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change by an operator."""

    id: int
    at: datetime
    owner: str
    actor: str
    face: str
    action: str
    subject: str
    detail: Json


async def read_trail(
    database: ReadingRunner, owners: Owners, wanted: DeedFilter = WHOLE_TRAIL
) -> Listed[AuditEntry]:
    """Read the audit trail, the newest entry first."""
    return Listed.of(await database.read(list_deeds(owners, wanted)), audit_entry)


def audit_entry(row: Row) -> AuditEntry:
    """Return an entry of the trail as it is shown."""
    return shown(AuditEntry, row, detail=None if row.detail is None else json.loads(row.detail))


class _Job(Protocol):
    @property
    def id(self) -> int: ...


class AlreadyHandled(Exception):  # noqa: N818 not an error: the result of an earlier request
    """A request with the same idempotency key was already processed."""

    def __init__(self, job_id: int) -> None:
        super().__init__(f"an earlier request created job {job_id}")
        self.job_id = job_id


class IdempotentDatabase:
    """A database for one request: its write and its idempotency key share one transaction."""

    def __init__(self, database: ReadingRunner, *, owner: str, key: str) -> None:
        """Take the idempotency key of the client."""
        self._database = database
        self._owner = owner
        self._key = f"request sha256:{hashlib.sha256(key.encode()).hexdigest()}"

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that writes nothing."""
        return await self._database.read(operation)

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation that returns a job; raise AlreadyHandled if an earlier request did."""
        return await self._database.run(self._once(operation))

    def _once(self, operation: Operation[T]) -> Operation[T]:
        earlier = yield from find_answer(self._owner, self._key)
        if earlier is not None:
            raise AlreadyHandled(earlier)
        result = yield from operation
        job = cast("_Job", result)
        yield from keep_answer(self._owner, self._key, job_id=job.id)
        return result
