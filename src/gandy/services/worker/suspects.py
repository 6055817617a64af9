"""Running suspects: jobs that were lost with their workers, isolated in sets beside the ordinary work.

How many share a process is decided by the losses on record alone, so that any worker goes on where another
one died: each loss halves the next set, until the job that kills its process is found alone in one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeAlias

from gandy.errors import UnknownTrainError
from gandy.rules.ending import most_in_set

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from gandy.model.run import ClaimedRun
    from gandy.services.worker.buffer import RunBuffer
    from gandy.train.base import Engine
    from gandy.train.process.runner import RunSet
    from gandy.train.registry import Registry

RunOne: TypeAlias = "Callable[[ClaimedRun, RunSet], Awaitable[None]]"
_log = logging.getLogger("gandy.worker")


class Suspects:
    """Takes suspects from their buffer and runs them: some sets at once, each in a process of its own.

    What waits for a process stays in the buffer, where it can still be given back.
    """

    def __init__(
        self,
        buffer: RunBuffer,
        engine: Engine,
        registry: Registry,
        *,
        run_one: RunOne,
        slots: int,
        processes: int,
    ) -> None:
        """Take `run_one`, which takes a run to its end; `slots` of them may go on, in `processes` sets."""
        self._buffer = buffer
        self._engine = engine
        self._registry = registry
        self._run_one = run_one
        self._free_slots = slots
        self._free_processes = processes
        self._is_here_free = True
        self._sets: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Begin a set whenever suspects and a process are there; leave none behind at the end."""
        try:
            while True:
                self._buffer.arrived.clear()
                while self._begin_here() or self._begin_apart():
                    pass
                await self._buffer.arrived.wait()
        finally:
            for each in self._sets:
                each.cancel()

    def _begin_here(self) -> bool:
        """Begin a run that cannot leave this process: one at a time."""
        chosen = self._buffer.take(1, self._is_bound) if self._is_here_free else []
        if chosen:
            self._is_here_free = False
            self._start(self._run_set(chosen, is_here=True), self._free_here)
        return bool(chosen)

    def _begin_apart(self) -> bool:
        """Begin a set of runs with the same number of losses, as large as that allows."""
        if not self._free_processes or not self._free_slots:
            return False
        first = self._buffer.find(lambda run: not self._is_bound(run))
        if first is None:
            return False
        most = most_in_set(first.losses)
        chosen = self._buffer.take(
            min(most, self._free_slots),
            lambda run: most_in_set(run.losses) == most and not self._is_bound(run),
        )
        self._free_processes -= 1
        self._free_slots -= len(chosen)
        self._start(self._run_set(chosen, is_here=False), lambda: self._free_apart(len(chosen)))
        return True

    def _is_bound(self, run: ClaimedRun) -> bool:
        try:
            return not self._engine.can_leave(self._registry.get(run.train))
        except UnknownTrainError:  # its end says so; no process is needed for that
            return True

    async def _run_set(self, chosen: Sequence[ClaimedRun], *, is_here: bool) -> None:
        with self._engine.isolation(len(chosen), is_here=is_here) as together:
            runs = [asyncio.ensure_future(self._run_one(claimed, together)) for claimed in chosen]
            try:
                await asyncio.wait(runs)
            finally:
                for each in runs:
                    each.cancel()
            for each, claimed in zip(runs, chosen, strict=True):
                _report(each, claimed)

    def _start(self, work: Awaitable[None], free: Callable[[], None]) -> None:
        task = asyncio.ensure_future(work)
        self._sets.add(task)

        def end(_: asyncio.Future[None]) -> None:
            self._sets.discard(task)
            free()
            self._buffer.arrived.set()

        task.add_done_callback(end)

    def _free_here(self) -> None:
        self._is_here_free = True

    def _free_apart(self, runs: int) -> None:
        self._free_processes += 1
        self._free_slots += runs


def _report(run: asyncio.Future[None], claimed: ClaimedRun) -> None:
    """Say that a run has no end of its own: the comparison with the database will find it."""
    error = None if run.cancelled() else run.exception()
    if error is not None:
        _log.error("run %d of %s was left without an end", claimed.id, claimed.train, exc_info=error)
