"""POSTs that are safe to send again: an `Idempotency-Key` answers the second with the job of the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from fastapi import Depends, Header, Request
from pydantic import BaseModel, Field

from gandy.desk.audit import AnsweredBefore, Once
from gandy.web.parts import Parts
from gandy.web.routers.bodies import Taken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gandy.store.drivers.database import ReadingRunner

IdempotencyKey: TypeAlias = Annotated[
    Annotated[str, Taken("idempotency_key")] | None,
    Header(
        description="Chosen by the sender. A second request with the same key, within a day, does nothing "
        "and is answered with the job of the first.",
    ),
]


class JobAnswer(BaseModel):
    """The job that a request came to; its id is the run's."""

    id: int
    is_new: bool = Field(description="False: it was there already, for this key or for another reason.")


class Repeatable:
    """Runs what makes a job at most once for one key."""

    def __init__(self, parts: Parts, path: str, key: str | None) -> None:
        self._database = parts.database
        self._owner = parts.owner
        self._key = None if key is None else f"{path} {key}"

    async def job(self, make: Callable[[ReadingRunner], Awaitable[JobAnswer]]) -> JobAnswer:
        """Make the job on the database that is handed over, or find the earlier one."""
        if self._key is None:
            return await make(self._database)
        try:
            return await make(Once(self._database, owner=self._owner, key=self._key))
        except AnsweredBefore as answered:
            return JobAnswer(id=answered.job_id, is_new=False)


async def _repeatable(request: Request, parts: Parts, idempotency_key: IdempotencyKey = None) -> Repeatable:
    return Repeatable(parts, request.url.path, idempotency_key)


OncePerKey: TypeAlias = Annotated[Repeatable, Depends(_repeatable)]
