"""Execute one run of a train, and end processes that its code forked."""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import sys
from contextlib import suppress
from contextvars import copy_context
from inspect import CO_COROUTINE
from time import perf_counter_ns
from types import FrameType, MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gandy.errors import MissingProvidedError, TaskCancelledError
from gandy.model.run import Cancelled, CancelledBy, Completed, Failed, JunctionTiming, Outcome
from gandy.train.failure import CancelRun, End, failure, message_of, type_path
from gandy.train.route import INPUT_SLOT, RUN_SLOT, Call, Cargo, Need, RoutePlan, type_name
from gandy.train.run import Cancellation, Run, enter_run, leave_run, running_now

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from gandy.train.threads import ThreadPool


RETURNED: Final = 0
_NEVER_RETURNS: Final = "multiprocessing.popen_fork"  # its children exit inside the function that forked them
EXIT_FORKED: Final = 70  # EX_SOFTWARE of sysexits.h
_NOTICE: Final = (
    b"gandy: a process that a job forked returned into the worker's code and was ended; "
    b"call exec or os._exit in it, or declare the train with process=True\n"
)


class _Forked:
    """The time at which this process was forked inside a run; zero in any other process."""

    at_ns: int = 0


forked: Final = _Forked()


def end_if_forked(run: Run) -> None:
    """End this process if it was forked inside this run or inside a nested run."""
    if run.started_ns < forked.at_ns:  # a run that the forked process started itself has begun later
        os._exit(RETURNED)  # without flushing: the buffered output may be the parent's


def _after_fork() -> None:
    run, forking = running_now(), sys._getframe(1)  # noqa: SLF001 - inspect.currentframe is the same
    if run is None or forking.f_globals.get("__name__") == _NEVER_RETURNS:
        return
    forked.at_ns = perf_counter_ns()
    with suppress(Exception):
        _stop_loop(run, forking)
    with suppress(Exception):
        _stop_thread(forking)


def _stop_loop(run: Run, forking: FrameType) -> None:
    """Replace the callbacks of the event loop, which are the parent's, by one that ends the process."""
    waiting = run.interruptible(None)
    if waiting is None:
        return
    loop = waiting.get_loop()
    ready = getattr(loop, "_ready", None)
    if ready is not None:
        ready.clear()
    else:  # a loop in C, whose callbacks cannot be cleared: end before it gets control
        _stop_task(forking)
    loop.call_soon(_stray)


def _stop_task(forking: FrameType) -> None:
    """End the process, by a profile function, when the task that forked it returns to the loop."""
    outermost = reversed(list(_frames(forking)))
    root = next((frame for frame in outermost if frame.f_code.co_flags & CO_COROUTINE), None)

    def watch(frame: FrameType, event: str, _: object) -> None:
        if frame is root and event == "return":  # the task awaits or has ended
            _stray()

    if root is not None:
        sys.setprofile(watch)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a stack, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _stop_thread(forking: FrameType) -> None:
    """Replace the work items of this thread's pool by one that ends the process."""
    for frame in _frames(forking):
        waiting = frame.f_locals.get("work_queue") if frame.f_code.co_name == "_worker" else None
        if isinstance(waiting, queue.SimpleQueue):
            with suppress(queue.Empty):
                while True:
                    waiting.get_nowait()
            waiting.put(SimpleNamespace(run=_stray))


def _stray(*_: object) -> None:
    with suppress(OSError):
        os.write(2, _NOTICE)
    os._exit(EXIT_FORKED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


ProvidedValues: TypeAlias = "Mapping[Any, object]"  # by type; no annotation means "any type expression"
NOTHING_PROVIDED: Final[ProvidedValues] = MappingProxyType({})


def always() -> bool:
    """Treat every cancellation of the task as requested by the caller."""
    return True


async def execute(
    plan: RoutePlan,
    value: object,
    *,
    run: Run,
    provided: ProvidedValues = NOTHING_PROVIDED,
    threads: ThreadPool,
    is_leaving: Callable[[], bool] = always,
    task: asyncio.Task[Any] | None = None,
) -> Outcome[Any]:
    """Run a train here and return how it ended, whatever its code raises.

    `task` is the current task, if the caller knows it: to ask for it is a system call on Python 3.11.

    Sync junctions run in `threads`. A request to cancel the run interrupts an async junction; a sync junction
    runs to its end, since a thread cannot be stopped. A cancellation of the task propagates if `is_leaving`
    returns True: the caller asked for it. Otherwise the job cancelled its own task: the cancellation is
    undone and the run fails.
    """
    if task is None:
        task = asyncio.current_task()
    cancelling = 0 if task is None else task.cancelling()
    timings: list[JunctionTiming] = []
    token = enter_run(run)
    run.interruptible(task)
    run.started_ns = perf_counter_ns()
    try:
        cargo = _load(plan, value, run=run, provided=provided)
        outcome: Outcome[Any] = await _travel(plan, cargo, run=run, timings=timings, threads=threads)
    except BaseException as exception:
        run.interruptible(None)
        run.take_back_interrupts(task)
        is_cancelled = task is not None and task.cancelling() > cancelling
        if _ends_the_task(exception, task, is_asked=is_cancelled and is_leaving()):
            run.request_cancel(CancelledBy.CALLER, "the task that ran it was cancelled")  # for its threads
            raise
        outcome = _stopped(exception, run, timings)
    finally:
        run.interruptible(None)
        run.take_back_interrupts(task)
        leave_run(token)
    if task is not None and task.cancelling() > cancelling:
        outcome = await _contained(task, cancelling, outcome, run=run, is_leaving=is_leaving)
    return outcome


async def execute_apart(
    plan: RoutePlan,
    value: object,
    *,
    run: Run,
    provided: ProvidedValues = NOTHING_PROVIDED,
    threads: ThreadPool,
) -> Outcome[Any]:
    """Run a train in its own task, so that its code cannot cancel the caller's task."""
    caller = asyncio.current_task()
    if caller is None:
        return await execute(plan, value, run=run, provided=provided, threads=threads)
    cancelling = caller.cancelling()
    work = execute(
        plan,
        value,
        run=run,
        provided=provided,
        threads=threads,
        is_leaving=lambda: caller.cancelling() > cancelling,
    )
    return await asyncio.get_running_loop().create_task(work)


async def contained(
    work: Coroutine[Any, Any, Outcome[Any]], *, run: Run, is_leaving: Callable[[], bool]
) -> Outcome[Any]:
    """Wait for a train that runs elsewhere; a cancellation that the caller did not ask for fails the run."""
    task = asyncio.current_task()
    cancelling = 0 if task is None else task.cancelling()
    try:
        return await work
    except asyncio.CancelledError as exception:
        if task is None or is_leaving():
            raise
        outcome = failure(exception, run, junction=run.junction, timings=())
        return await _contained(task, cancelling, outcome, run=run, is_leaving=is_leaving)


def _ends_the_task(exception: BaseException, task: asyncio.Task[Any] | None, *, is_asked: bool) -> bool:
    """Return whether the exception ends the task, and was not raised by the job's code."""
    kind = type(exception)
    if issubclass(kind, asyncio.CancelledError):
        return is_asked
    # A coroutine closed from outside is not run by a loop; a job may raise GeneratorExit, too.
    return issubclass(kind, GeneratorExit) and not _is_running(task)


def _is_running(task: asyncio.Task[Any] | None) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


async def _contained(
    task: asyncio.Task[Any],
    cancelling: int,
    outcome: Outcome[Any],
    *,
    run: Run,
    is_leaving: Callable[[], bool],
) -> Outcome[Any]:
    """Undo a cancellation that the job caused, and fail the run for it."""
    if is_leaving():  # the caller cancelled the task while the job ended for another reason
        return outcome
    was_pending = await free_task(task, cancelling)
    if is_leaving():
        raise asyncio.CancelledError
    cause = outcome.exception if isinstance(outcome, Failed) else None
    was_hit = cause is not None and issubclass(type(cause), asyncio.CancelledError)
    if not was_hit and not (was_pending and isinstance(outcome, Completed)):
        return outcome  # the job handled its own timeout, or raised a more specific exception
    error = TaskCancelledError(train=run.train)
    error.__cause__ = cause
    return failure(error, run, junction=run.junction, timings=outcome.timings)


async def free_task(task: asyncio.Task[Any], cancelling: int) -> bool:
    """Undo cancellations of the current task, down to `cancelling`; return whether one was still pending."""
    was_pending = False
    try:  # before Python 3.13 uncancel() does not clear a pending CancelledError
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        was_pending = True
    while task.cancelling() > cancelling:
        task.uncancel()
    return was_pending


def _load(plan: RoutePlan, value: object, *, run: Run, provided: ProvidedValues) -> Cargo:
    """Put the input, the run and the provided values into their slots."""
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
    plan: RoutePlan, cargo: Cargo, *, run: Run, timings: list[JunctionTiming], threads: ThreadPool
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
            if forked.at_ns:
                end_if_forked(run)
            timings.append(JunctionTiming(step.name, begun - run.started_ns, perf_counter_ns() - begun))
        if type(result) is End:
            return Completed(result.value, tuple(timings), step.name)
        if step.slot >= 0:
            cargo[step.slot] = result
        elif step.unpack is not None:
            step.unpack(cargo, result)
    return Completed(plan.output(cargo), tuple(timings))


async def _in_thread(call: Call, cargo: Cargo, *, run: Run, threads: ThreadPool) -> object:
    """Call a sync junction in a thread, with a copy of this context; await a coroutine that it returns."""
    task = run.interruptible(None)
    try:
        result = await threads.call(copy_context().run, _called, call, cargo, run)
    finally:
        run.interruptible(task)
    if type(result) is _Raised:
        raise result.exception
    return await result if inspect.iscoroutine(result) else result


class _Raised:
    """An exception of a junction in its thread, as a value: a future cannot carry StopIteration."""

    __slots__ = ("exception",)

    def __init__(self, exception: BaseException) -> None:
        self.exception = exception


def _called(call: Call, cargo: Cargo, run: Run) -> object:
    try:
        result = call(cargo)
    except StopIteration as error:  # raised inside a coroutine it would become a RuntimeError
        stopped = RuntimeError(f"the junction raised {type_path(type(error))}")
        stopped.__cause__ = error
        result = _Raised(stopped)
    except BaseException as error:  # noqa: BLE001 - any exception is the run's failure
        result = _Raised(error)
    if forked.at_ns:
        end_if_forked(run)
    return result


def _stopped(exception: BaseException, run: Run, timings: list[JunctionTiming]) -> Failed | Cancelled:
    """Return a cancellation if the run was asked to stop, else a failure."""
    asked = run.cancellation
    if issubclass(type(exception), CancelRun):
        asked = asked or _own_request(exception)
    elif asked is not None and not issubclass(type(exception), asyncio.CancelledError):
        text = f"stopped by {type_path(type(exception))} after the request to cancel"
        run.keep_line("WARNING", "gandy.run", text)
    if asked is None:
        return failure(exception, run, junction=run.junction, timings=tuple(timings))
    return Cancelled(asked.by, run.without_secrets(asked.reason), run.junction, tuple(timings))


def _own_request(exception: BaseException) -> Cancellation:
    """Read a CancelRun, whose subclass may lack its fields."""
    try:
        by, reason = getattr(exception, "by", None), getattr(exception, "reason", None)
    except BaseException:  # noqa: BLE001 - a property may raise anything
        by, reason = None, None
    return Cancellation(
        by if type(by) is CancelledBy else CancelledBy.RUN,
        reason if type(reason) is str else message_of(exception),
    )


def describe_need(train: str, need: Need) -> str:
    """Describe the missing value, its junction, and the values available there."""
    return (
        f"train {train}: junction {need.junction} needs {type_name(need.key)} "
        f"(parameter {need.parameter!r}), which no earlier junction returns and which is not provided; "
        "available there: "
        f"{', '.join(need.available) or 'nothing'}"
    )


def missing_provided(missing: tuple[str, ...], provided: ProvidedValues) -> MissingProvidedError:
    """Put all missing values into one error."""
    return MissingProvidedError(missing=missing, provided=tuple(type_name(key) for key in provided))
