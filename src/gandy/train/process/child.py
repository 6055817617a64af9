"""The child process that runs isolated trains."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import threading
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, assert_never, runtime_checkable

from gandy.errors import ActivationError, TrainProcessError
from gandy.train.definition import TrainDefinition
from gandy.train.execution import NOTHING_PROVIDED, ProvidedValues, execute
from gandy.train.failure import failure, run_contained
from gandy.train.log import MaskingFactory, RunLogHandler
from gandy.train.process.messages import (
    PIPE_LOST,
    Activated,
    Began,
    Ended,
    Entered,
    Leave,
    Logged,
    Progressed,
    StartMessage,
    Stop,
    ToChild,
    ToParent,
    decode_to_child,
    encode_to_parent,
    failed_message,
    to_message,
)
from gandy.train.registry import Provided, Registry
from gandy.train.route import step_calling
from gandy.train.run import Run, mask_reports, running_now
from gandy.train.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.model.run import Activation
    from gandy.train.route import Cargo, RoutePlan, RouteStep
    from gandy.train.run import LogLine, Progress


@runtime_checkable
class TrainHost(Protocol):
    """The part of an app that its child processes use."""

    registry: Registry
    provided: Provided


def load_host(place: str) -> TrainHost:
    """Import "module:name", an app or a Train class, and return it as a host."""
    module, _, name = place.partition(":")
    found: object = attrgetter(name)(importlib.import_module(module))
    if isinstance(found, TrainHost):
        return found
    definition = getattr(found, "definition", None)
    if not isinstance(definition, TrainDefinition):
        raise TrainProcessError(train=place, problem="it is neither an app nor a Train class")
    return _SingleTrain(definition)


def host_of(definition: TrainDefinition[Any, Any]) -> str:
    """Return the place of a train that runs without an app: its own class."""
    module, name = definition.source.__module__, definition.source.__qualname__
    if "<locals>" in name:
        problem = "a train with process=True must be importable: define it at the top level of a module"
        raise TrainProcessError(train=definition.name, problem=problem)
    if module == "__main__":
        problem = (
            "a train with process=True must be importable, and this one is defined in the script that is "
            "being run (__main__), which a child process would run again: move it to a module and import it"
        )
        raise TrainProcessError(train=definition.name, problem=problem)
    return f"{module}:{name}"


class _SingleTrain:
    def __init__(self, definition: TrainDefinition[Any, Any]) -> None:
        self.registry = Registry()
        self.registry.add(definition)
        self.provided = Provided()


MOST_THREADS: Final = 128  # the size of the largest set of suspects
LOOK_SECONDS: Final = 1.0


def main(fileno: int, place: str) -> None:
    """Serve the parent until its end of the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then sends Leave
    fileno = _lowered(fileno)
    connection = Connection(fileno)
    os.register_at_fork(after_in_child=lambda: _close(fileno))  # nor must a forked process
    logging.getLogger().addHandler(RunLogHandler(running_now))
    logging.setLogRecordFactory(MaskingFactory(running_now, logging.getLogRecordFactory()))
    mask_reports()
    parent = _Parent(connection)
    try:
        with asyncio.Runner() as runner:
            run_contained(runner, _Child(parent, place).serve())
    finally:
        parent.leave_if_lost()


def _lowered(fileno: int) -> int:
    """Return the lowest free number for the pipe, which a program that a job starts does not inherit.

    The parent's number may be high: a job that closes descriptors up to a lower one would close those of the
    event loop and not the pipe, so that its end would never be reported.
    """
    lowest = os.dup(fileno)
    os.close(fileno)
    return lowest


def _close(fileno: int) -> None:
    with suppress(OSError):
        os.close(fileno)


class _Child:
    """Reads requests in a thread, so that a request to stop arrives even if the event loop is blocked."""

    def __init__(self, parent: _Parent, place: str) -> None:
        self._parent = parent
        self._place = place
        self._runs: dict[int, Run] = {}
        self._sinks: dict[int, _ParentSink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: asyncio.Queue[tuple[StartMessage, Run] | None] = asyncio.Queue()
        self._threads = ThreadPool(MOST_THREADS, "gandy-junction")
        self._host: TrainHost | None = None
        self._provided: ProvidedValues | None = None
        self._preparing = asyncio.Lock()

    async def serve(self) -> None:
        listener = threading.Thread(target=self._listen, args=(asyncio.get_running_loop(),), daemon=True)
        listener.start()
        async with AsyncExitStack() as stack:
            while (request := await self._requests.get()) is not None:
                task = asyncio.create_task(self._run_one(*request, stack))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run_one(self, start: StartMessage, run: Run, stack: AsyncExitStack) -> None:
        ended = await self._perform(start, run, stack)
        del self._runs[start.ticket]
        self._sinks.pop(start.ticket).close()
        self._parent.send(ended)

    async def _perform(self, start: StartMessage, run: Run, stack: AsyncExitStack) -> Ended:
        try:
            async with self._preparing:
                host = self._host = self._host or load_host(self._place)
                definition = host.registry.get(start.train)
                run.dormant = host.registry.dormant
                value = definition.input.decode(start.input_json)
                run.hide(definition.input.secrets(value))
                provided = await self._provided_values(stack) if definition.plan.needs else NOTHING_PROVIDED
        except BaseException as error:  # noqa: BLE001 - any exception of an import is this run's failure
            return failed_message(failure(error, run, junction=None, timings=()), start.ticket)
        self._parent.send(Began(ticket=start.ticket))
        plan = _announcing(definition.plan, self._parent, start.ticket)
        outcome = await execute(
            plan, value, run=run, provided=provided, threads=self._threads, is_leaving=_never
        )
        return to_message(outcome, definition, run, ticket=start.ticket)

    async def _provided_values(self, stack: AsyncExitStack) -> ProvidedValues:
        if self._provided is None and self._host is not None:
            self._provided = await stack.enter_async_context(self._host.provided.opened())
        return self._provided or NOTHING_PROVIDED

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while True:
                self._take(decode_to_child(self._parent.receive(self._has_runs)), loop)
        except (EOFError, OSError):  # the parent has closed the pipe, or died
            if self._runs:
                os._exit(1)  # the outcomes of the runs cannot be reported any more
            with suppress(RuntimeError):  # the loop is closed: this process is ending
                loop.call_soon_threadsafe(self._requests.put_nowait, None)

    def _has_runs(self) -> bool:
        return bool(self._runs)

    def _take(self, message: ToChild, loop: asyncio.AbstractEventLoop) -> None:
        match message:
            case StartMessage():
                sink = self._sinks[message.ticket] = _ParentSink(self._parent, message.ticket)
                run = _run_of(message, sink)
                self._runs[message.ticket] = run  # in this thread: a request to stop may follow at once
                loop.call_soon_threadsafe(self._requests.put_nowait, (message, run))
            case Stop():
                found = self._runs.get(message.ticket)
                if found is not None:
                    found.request_cancel(message.by, message.reason)
            case Leave():
                loop.call_soon_threadsafe(self._requests.put_nowait, None)
            case _:
                assert_never(message)


class _Parent:
    """The pipe to the parent: one message at a time, from any thread.

    A job may close foreign descriptors: the pipe, and the self-pipe of the event loop. It may then open a
    file that gets the pipe's number. The identity of the descriptor reveals this, and the process ends.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._identity = self._identify()
        self._sending = threading.Lock()

    def send(self, message: ToParent) -> None:
        raw = encode_to_parent(message)
        with self._sending:
            self.leave_if_lost()
            self._connection.send_bytes(raw)

    def receive(self, is_busy: Callable[[], bool]) -> bytes:
        """Wait for a message; while runs could close the pipe, check it at intervals.

        A blocking read would keep the pipe open although its descriptor is closed, unnoticed by the parent.
        """
        while is_busy() and not self._connection.poll(LOOK_SECONDS):
            self.leave_if_lost()
        self.leave_if_lost()
        return self._connection.recv_bytes()

    def leave_if_lost(self) -> None:
        """End this process at once if its pipe is not open any more."""
        if self._identity is None or self._identify() != self._identity:
            os._exit(PIPE_LOST)

    def _identify(self) -> tuple[int, int] | None:
        try:
            found = os.fstat(self._connection.fileno())
        except OSError:
            return None
        return found.st_dev, found.st_ino


class _ParentSink:
    """The sink of one run in a child: sends everything to the parent, which keeps it."""

    def __init__(self, parent: _Parent, ticket: int) -> None:
        self._parent = parent
        self._ticket = ticket
        self._activating = threading.Lock()
        self._has_ended = False

    def close(self) -> None:
        """Refuse activations from now on: the parent would drop them."""
        with self._activating:
            self._has_ended = True

    def write_log(self, run: Run, line: LogLine) -> None:  # noqa: ARG002 - one run only
        self._parent.send(
            Logged(ticket=self._ticket, level=line.level, logger=line.logger, message=line.message)
        )

    def report_progress(self, run: Run, progress: Progress) -> None:  # noqa: ARG002 - one run only
        self._parent.send(Progressed(ticket=self._ticket, done=progress.done, total=progress.total))

    def activate(self, run: Run, activation: Activation) -> None:  # noqa: ARG002 - one run only
        message = Activated(
            ticket=self._ticket,
            external_id=activation.external_id,
            input_json=activation.input_json,
            checked_by=activation.checked_by,
        )
        with self._activating:
            if self._has_ended:
                raise ActivationError(f"activate({activation.external_id!r}): the run has ended")
            self._parent.send(message)


def _never() -> bool:
    """Return False: no task of a child is cancelled from outside, the parent sends a Stop message."""
    return False


def _run_of(start: StartMessage, sink: _ParentSink) -> Run:
    return Run(
        id=start.id,
        train=start.train,
        manifest=start.manifest,
        due_at=start.due_at,
        attempt=start.attempt,
        fence=start.fence,
        sink=sink,
    )


def _announcing(plan: RoutePlan, parent: _Parent, ticket: int) -> RoutePlan:
    """Report each junction to the parent, so that a killed child's junction is known."""
    return replace(plan, steps=tuple(_announced(step, parent, ticket) for step in plan.steps))


def _announced(step: RouteStep, parent: _Parent, ticket: int) -> RouteStep:
    def call(cargo: Cargo) -> object:
        parent.send(Entered(ticket=ticket, junction=step.name))
        return step.call(cargo)

    return step_calling(step, call)
