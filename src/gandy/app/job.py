"""A queued job, as the one who queued it sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from gandy.errors import JobCancelledError, JobFailedError, JobNotFoundError, JobTimeoutError
from gandy.model.owners import ALL_OWNERS
from gandy.model.run import TrainState
from gandy.settings.bounds import check
from gandy.store.runs import JobView, find_job
from gandy.store.statements import Operation

if TYPE_CHECKING:
    from gandy.train.codec import PayloadCodec

Out = TypeVar("Out")
ReadJob: TypeAlias = Callable[[Operation[JobView | None]], Awaitable[JobView | None]]

_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5
_ENDED: Final = frozenset({TrainState.COMPLETED, TrainState.FAILED, TrainState.CANCELLED})


class Job(Generic[Out]):
    """Queued work: its id is the one that `gandy runs show` takes."""

    __slots__ = ("_output", "_read", "id", "is_new", "train")

    def __init__(
        self, id: int, *, train: str, read: ReadJob, output: PayloadCodec[Out], is_new: bool = True
    ) -> None:
        self._read = read
        self._output = output
        self.id = id
        self.train = train
        self.is_new = is_new  #: False where a job with the same key was there already

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.train}>"

    async def result(self, timeout: float | timedelta | None = None) -> Out:  # noqa: ASYNC109 - waits for others
        """Wait for the job's end, through its retries, and return its output; raise where it failed.

        `timeout` is in seconds or a timedelta; the job goes on when it has passed.
        """
        if timeout is not None:
            check("wait", timeout, called="timeout")
        limit = timeout if isinstance(timeout, timedelta) or timeout is None else timedelta(seconds=timeout)
        loop = asyncio.get_running_loop()
        deadline = None if limit is None else loop.time() + limit.total_seconds()
        pause = _FIRST_PAUSE
        attempt = self.id
        while (view := await self._find(attempt)).state not in _ENDED:
            attempt = view.id
            if limit is not None and deadline is not None:
                if loop.time() >= deadline:
                    raise JobTimeoutError(self.id, self.train, waited=limit, state=view.state)
                pause = min(pause, max(deadline - loop.time(), 0))
            await asyncio.sleep(pause)
            pause = min(max(pause, _FIRST_PAUSE) * 1.5, _LONGEST_PAUSE)
        return self._value(view)

    async def _find(self, attempt: int) -> JobView:
        view = await self._read(find_job(attempt, ALL_OWNERS))  # its own enqueue gave it the id
        if view is None:
            raise JobNotFoundError(self.id)
        return view

    def _value(self, view: JobView) -> Out:
        if view.state == TrainState.FAILED:
            raise JobFailedError(
                self.id, self.train, exception=view.failure_exception, reason=view.failure_reason
            )
        if view.state == TrainState.CANCELLED:
            raise JobCancelledError(self.id, self.train, by=view.cancellation_reason)
        return self._output.decode(view.output or "null")
