"""A request that is sent twice is served once: the second is told what the first came to."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from gandy.store.audit import find_answer, keep_answer

if TYPE_CHECKING:
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.statements import Operation

T = TypeVar("T")


class _Job(Protocol):
    @property
    def id(self) -> int: ...


class AnsweredBefore(Exception):  # noqa: N818 no error: the answer of an earlier request
    """The same request was served already."""

    def __init__(self, job_id: int) -> None:
        super().__init__(f"an earlier request came to job {job_id}")
        self.job_id = job_id


class Once:
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
