"""The engine of one process: the threads and the processes that trains run in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from gandy.train.execution import NOTHING_PROVIDED, ProvidedValues, contained, execute, execute_apart
from gandy.train.process.runner import ProcessRunner, RunSet
from gandy.train.provided import OfThisProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from gandy.model.run import Outcome
    from gandy.train.definition import TrainDefinition
    from gandy.train.inside.run import Run
    from gandy.train.process.runner import Places

DEFAULT_MAX_THREADS: Final = 32


class Engine:
    """Runs trains where they ask to be run: async junctions here, sync ones in threads, some in processes."""

    def __init__(
        self,
        *,
        host: str | None = None,
        max_threads: int = DEFAULT_MAX_THREADS,
        max_processes: int | None = None,
    ) -> None:
        """Take as `host` the importable place of the app, "module:name", where child processes find it."""
        self._threads = ThreadPoolExecutor(max_threads, thread_name_prefix="gandy-junction")
        self._processes = ProcessRunner(host=host, max_processes=max_processes)

    @property
    def places(self) -> Places:
        """The places for processes: how many there are, and how many are free."""
        return self._processes.places

    def can_leave(self, definition: TrainDefinition[Any, Any]) -> bool:
        """Tell whether another process could run this train: it can import the app and make what it needs."""
        return self._processes.host is not None and not _is_bound_here(definition)

    @contextmanager
    def isolation(self, size: int, *, is_here: bool = False) -> Iterator[RunSet]:
        """Make a set of runs that are isolated together; `is_here`: of one that cannot leave this process."""
        together = RunSet(size, is_here=is_here)
        try:
            yield together
        finally:
            self._processes.release(together)

    def execute(
        self,
        definition: TrainDefinition[Any, Any],
        value: object,
        *,
        run: Run,
        provided: ProvidedValues = NOTHING_PROVIDED,
        together: RunSet | None = None,
        is_leaving: Callable[[], bool] | None = None,
    ) -> Coroutine[Any, Any, Outcome[Any]]:
        """Run a train and return how it ended.

        `together` is the set that the run is isolated with. `is_leaving` says whether a cancellation of the
        task is the caller's own; without it the train gets a task of its own, which tells the two apart.
        """
        if definition.input.has_secrets:
            run.hide(definition.input.secrets(value))
        if definition.options.process or (together is not None and not together.is_here):
            work = self._processes.execute(definition, value, run=run, together=together)
            return work if is_leaving is None else contained(work, run=run, is_leaving=is_leaving)
        if is_leaving is None:
            return execute_apart(definition.plan, value, run=run, provided=provided, threads=self._threads)
        return execute(
            definition.plan, value, run=run, provided=provided, threads=self._threads, is_leaving=is_leaving
        )

    async def close(self) -> None:
        """End the idle processes and let go of the threads; one that still runs is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._processes.close()


def _is_bound_here(definition: TrainDefinition[Any, Any]) -> bool:
    keys = (need.key for need in definition.plan.needs)
    return any(isinstance(key, type) and issubclass(key, OfThisProcess) for key in keys)


@cache
def default_engine() -> Engine:
    """Return the engine of trains that run without an app."""
    return Engine()
