"""Executing a plan: junction after junction, until the end, a failure or a cancellation."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import copy_context
from time import perf_counter_ns
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gandy.errors import MissingProvidedError
from gandy.model.outcome import Cancelled, CancelledBy, Completed, Failed, JunctionTiming, Outcome
from gandy.train.failure import failure, type_path
from gandy.train.inside.run import Cancellation, Run, enter_run, leave_run
from gandy.train.route.cargo import type_name
from gandy.train.route.plan import INPUT_SLOT, RUN_SLOT, Call, Cargo, Need, Plan
from gandy.train.signals import CancelRun, End

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

ProvidedValues: TypeAlias = "Mapping[Any, object]"  # by type; no annotation can say "any type expression"
NOTHING_PROVIDED: Final[ProvidedValues] = MappingProxyType({})


async def execute(
    plan: Plan,
    value: object,
    *,
    run: Run,
    provided: ProvidedValues = NOTHING_PROVIDED,
    threads: Executor | None = None,
) -> Outcome[Any]:
    """Run a train here and return how it ended; raise only what has to end the task itself.

    Sync junctions go to `threads` (None: the loop's own). A request to cancel the run interrupts an async
    junction; a sync one is waited for, since a thread cannot be stopped. A cancellation of the task from
    outside passes through.
    """
    task = asyncio.current_task()
    cancelling = 0 if task is None else task.cancelling()
    timings: list[JunctionTiming] = []
    token = enter_run(run)
    run.interruptible(task)
    run.started_ns = perf_counter_ns()
    try:
        cargo = _load(plan, value, run=run, provided=provided)
        return await _travel(plan, cargo, run=run, timings=timings, threads=threads)
    except asyncio.CancelledError as exception:
        run.take_back_interrupts(task)
        if task is not None and task.cancelling() > cancelling:
            run.request_cancel(
                CancelledBy.CALLER, "the task that ran it was cancelled"
            )  # for a junction in a thread
            raise
        return _stopped(exception, run, timings)
    except (Exception, SystemExit, CancelRun) as exception:  # noqa: BLE001 - the failure track takes whatever it is
        return _stopped(exception, run, timings)
    finally:
        run.interruptible(None)
        run.take_back_interrupts(task)
        leave_run(token)


def _load(plan: Plan, value: object, *, run: Run, provided: ProvidedValues) -> Cargo:
    """Lay everything that a run starts with into its slots."""
    cargo: Cargo = [*plan.blank]
    cargo[INPUT_SLOT] = value
    cargo[RUN_SLOT] = run
    for need in plan.needs:
        if need.key in provided:
            cargo[need.slot] = provided[need.key]
        elif need.is_required:
            run.junction = need.junction
            raise missing_provided((describe_need(plan.train, need),), provided)
    if plan.unpack_input is not None:
        plan.unpack_input(cargo, value)
    return cargo


async def _travel(
    plan: Plan, cargo: Cargo, *, run: Run, timings: list[JunctionTiming], threads: Executor | None
) -> Completed[Any]:
    for step in plan.steps:
        run.junction = step.name
        if run.cancellation is not None:
            run.raise_if_cancelled()
        begun = perf_counter_ns()
        try:
            if step.start is None:
                result = await _in_thread(step.call, cargo, run=run, threads=threads)
            else:
                result = await step.start(cargo)
        finally:
            timings.append(JunctionTiming(step.name, begun - run.started_ns, perf_counter_ns() - begun))
        if type(result) is End:
            return Completed(result.value, tuple(timings), step.name)
        if step.slot >= 0:
            cargo[step.slot] = result
        elif step.unpack is not None:
            step.unpack(cargo, result)
    return Completed(plan.output(cargo), tuple(timings))


async def _in_thread(call: Call, cargo: Cargo, *, run: Run, threads: Executor | None) -> object:
    """Call a sync junction in a thread, in this context; what it returns may still be a coroutine."""
    loop = asyncio.get_running_loop()
    task = run.interruptible(None)
    try:
        result = await loop.run_in_executor(threads, copy_context().run, _called, call, cargo)
    finally:
        run.interruptible(task)
    return await result if inspect.iscoroutine(result) else result


def _called(call: Call, cargo: Cargo) -> object:
    try:
        return call(cargo)
    except StopIteration as error:  # a future cannot carry it: the await would never end
        raise RuntimeError("the junction raised StopIteration") from error


def _stopped(exception: BaseException, run: Run, timings: list[JunctionTiming]) -> Failed | Cancelled:
    """Tell a cancellation from a failure: once asked to stop, a run that does not complete is cancelled."""
    asked = run.cancellation
    if isinstance(exception, CancelRun):
        asked = asked or Cancellation(exception.by, exception.reason)
    elif asked is not None and not isinstance(exception, asyncio.CancelledError):
        text = f"stopped by {type_path(type(exception))} after the request to cancel"
        run.keep_line("WARNING", "gandy.run", text)
    if asked is None:
        return failure(exception, run, junction=run.junction, timings=tuple(timings))
    return Cancelled(asked.by, run.without_secrets(asked.reason), run.junction, tuple(timings))


def describe_need(train: str, need: Need) -> str:
    """Say which junction misses which value, and what it could have instead."""
    return (
        f"train {train}: junction {need.junction} needs {type_name(need.key)} "
        f"(parameter {need.parameter!r}), which no earlier junction returns and nobody provides; "
        "available there: "
        f"{', '.join(need.available) or 'nothing'}"
    )


def missing_provided(missing: tuple[str, ...], provided: ProvidedValues) -> MissingProvidedError:
    """Put the needs that nobody met into one error."""
    return MissingProvidedError(missing=missing, provided=tuple(type_name(key) for key in provided))
