"""The process of a train: imports the host to find its trains, then runs what the parent asks for."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from gandy.train.execution import NOTHING_PROVIDED, ProvidedValues, execute
from gandy.train.failure import failure
from gandy.train.inside.log import RunLogHandler
from gandy.train.inside.run import Run, running_now
from gandy.train.process.host import load_host
from gandy.train.process.messages import (
    Activated,
    Ended,
    Entered,
    Leave,
    Logged,
    Progressed,
    Start,
    Stop,
    ToChild,
    ToParent,
    decode_to_child,
    encode_to_parent,
)
from gandy.train.process.outcomes import failed_message, to_message
from gandy.train.route.plan import step_calling

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from gandy.train.inside.sink import Activation, LogLine, Progress
    from gandy.train.process.host import TrainHost
    from gandy.train.route.plan import Cargo, Plan, Step


def main(connection: Connection, place: str) -> None:
    """Serve the parent until its end of the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then asks us to stop
    logging.getLogger().addHandler(RunLogHandler(running_now))
    asyncio.run(_Child(connection, place).serve())


class _Child:
    """Reads requests in a thread, so that one to stop arrives whatever the event loop does."""

    def __init__(self, connection: Connection, place: str) -> None:
        self._parent = _Parent(connection)
        self._connection = connection
        self._place = place
        self._run: Run | None = None
        self._requests: asyncio.Queue[tuple[Start, Run] | None] = asyncio.Queue()
        self._host: TrainHost | None = None
        self._provided: ProvidedValues | None = None

    async def serve(self) -> None:
        listener = threading.Thread(target=self._listen, args=(asyncio.get_running_loop(),), daemon=True)
        listener.start()
        async with AsyncExitStack() as stack:
            while (request := await self._requests.get()) is not None:
                ended = await self._perform(*request, stack)
                self._run = None
                self._parent.send(ended)

    async def _perform(self, start: Start, run: Run, stack: AsyncExitStack) -> Ended:
        try:
            if self._host is None:
                self._host = load_host(self._place)
            definition = self._host.registry.get(start.train)
            value = definition.input.decode(start.input_json)
            run.hide(definition.input.secrets(value))
            provided = await self._provided_values(stack) if definition.plan.needs else NOTHING_PROVIDED
        except Exception as error:  # noqa: BLE001 - whatever an import raises is this run's failure
            return failed_message(failure(error, run, junction=None, timings=()))
        plan = _announcing(definition.plan, self._parent)
        return to_message(await execute(plan, value, run=run, provided=provided), definition, run)

    async def _provided_values(self, stack: AsyncExitStack) -> ProvidedValues:
        if self._provided is None and self._host is not None:
            self._provided = await stack.enter_async_context(self._host.provided.opened())
        return self._provided or NOTHING_PROVIDED

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while True:
                self._take(decode_to_child(self._connection.recv_bytes()), loop)
        except (EOFError, OSError):  # the parent has closed the pipe, or died
            if self._run is not None:
                os._exit(1)  # nobody is left to tell how it ended
            with suppress(RuntimeError):  # we were about to end anyway
                loop.call_soon_threadsafe(self._requests.put_nowait, None)

    def _take(self, message: ToChild, loop: asyncio.AbstractEventLoop) -> None:
        match message:
            case Start():
                self._run = _run_of(message, self._parent)  # made here: a request to stop may follow at once
                loop.call_soon_threadsafe(self._requests.put_nowait, (message, self._run))
            case Stop():
                if self._run is not None:
                    self._run.request_cancel(message.by, message.reason)
            case Leave():
                loop.call_soon_threadsafe(self._requests.put_nowait, None)
            case _:
                assert_never(message)


class _Parent:
    """The sink of a run in a child: everything is told to the parent, which keeps it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: ToParent) -> None:
        with self._sending:
            self._connection.send_bytes(encode_to_parent(message))

    def write_log(self, run: Run, line: LogLine) -> None:  # noqa: ARG002 - one run at a time
        self.send(Logged(level=line.level, logger=line.logger, message=line.message))

    def report_progress(self, run: Run, progress: Progress) -> None:  # noqa: ARG002 - one run at a time
        self.send(Progressed(done=progress.done, total=progress.total))

    def activate(self, run: Run, activation: Activation) -> None:  # noqa: ARG002 - one run at a time
        self.send(Activated(external_id=activation.external_id, input_json=activation.input_json))


def _run_of(start: Start, parent: _Parent) -> Run:
    return Run(
        id=start.id,
        train=start.train,
        manifest=start.manifest,
        due_at=start.due_at,
        attempt=start.attempt,
        fence=start.fence,
        sink=parent,
    )


def _announcing(plan: Plan, parent: _Parent) -> Plan:
    """Tell the parent which junction begins, so that it knows where a killed child was."""
    return replace(plan, steps=tuple(_announced(step, parent) for step in plan.steps))


def _announced(step: Step, parent: _Parent) -> Step:
    def call(cargo: Cargo) -> object:
        parent.send(Entered(junction=step.name))
        return step.call(cargo)

    return step_calling(step, call)
