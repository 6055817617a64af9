"""The engine of one process: the threads and the processes that trains run in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from gandy.train.execution import NOTHING_PROVIDED, ProvidedValues, execute
from gandy.train.process.runner import ProcessRunner
from gandy.train.provided import OfThisProcess

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from gandy.model.outcome import Outcome
    from gandy.train.definition import TrainDefinition
    from gandy.train.inside.run import Run

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

    def execute(
        self,
        definition: TrainDefinition[Any, Any],
        value: object,
        *,
        run: Run,
        provided: ProvidedValues = NOTHING_PROVIDED,
        isolated: bool = False,
    ) -> Coroutine[Any, Any, Outcome[Any]]:
        """Run a train and return how it ended; `isolated` gives it a process that is not used again."""
        if definition.input.has_secrets:
            run.hide(definition.input.secrets(value))
        if definition.options.process or (isolated and not _is_bound_here(definition)):
            return self._processes.execute(definition, value, run=run, isolated=isolated)
        return execute(definition.plan, value, run=run, provided=provided, threads=self._threads)

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
