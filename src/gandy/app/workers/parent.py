"""The parent of worker processes: it starts them, starts again what ends, and sums what they count."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, assert_never

from gandy.app.workers.messages import (
    AskIdle,
    Begin,
    IsIdle,
    Launch,
    LeaveMessage,
    ToParent,
    ToWorker,
    WorkerReport,
    decode_to_parent,
    encode_to_worker,
)
from gandy.events import LoopEnded, LoopRestarted, RunsEndedInChild
from gandy.loops.wakeups import wait_within
from gandy.telemetry.observing import WORKER_PROCESS, observe
from gandy.train.process.parent import start_interpreter
from gandy.work.worker import SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gandy.context import Context


_log = logging.getLogger("gandy.worker")

_BOOT: Final = "from gandy.app.workers.child import main; main(int(sys.argv[2]))"
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
#: A process that lasted this long begins with the first pause again.
STEADY_SECONDS: Final = 60.0
#: A process reports every three seconds.
SILENT_SECONDS: Final = 15.0
#: After the grace period: the time in which worker processes end by themselves.
LEAVE_SECONDS: Final = 4.5
CLOSING_SECONDS: Final = 2.0


_serials: Final = itertools.count(1)


class WorkerProcess:
    """One worker process, and its last report. Made in the main thread: on Linux it dies with that."""

    def __init__(self, number: int, begin: Begin, *, take: Callable[[WorkerProcess, ToParent], None]) -> None:
        """Start it; `take` is called on the event loop for each message."""
        self.number = number
        self.serial = next(_serials)
        self._take = take
        self._loop = asyncio.get_running_loop()
        is_relayed = sys.stderr is not sys.__stderr__  # a status line: all output is written above it
        stderr = subprocess.PIPE if is_relayed else None
        self._process, self._pipe = start_interpreter(_BOOT, stderr=stderr)
        self.report: WorkerReport | None = None
        self.reported_at = monotonic()
        self.idle: IsIdle | None = None
        self.ended = asyncio.Event()
        self.tell(begin)
        self._start_thread(self._listen)
        if is_relayed:
            self._start_thread(self._relay)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def cause(self) -> str:
        """Why it ended."""
        code = self._process.returncode
        if code is None or code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"

    def tell(self, message: ToWorker) -> None:
        """Send a message; a process that has ended gets none."""
        with suppress(OSError):
            self._pipe.send_bytes(encode_to_worker(message))

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def _start_thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=f"gandy-worker-{self.pid}", daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                self._call(self._take, self, decode_to_parent(self._pipe.recv_bytes()))
        except (EOFError, OSError):
            pass
        except ValueError:
            _log.exception("worker process %d sent an invalid message", self.pid)
            self.kill()
        try:
            self._process.wait(CLOSING_SECONDS)
        except subprocess.TimeoutExpired:  # it runs on without its pipe
            self.kill()
            self._process.wait()
        self._pipe.close()
        self._call(self.ended.set)

    def _call(self, callback: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: this process is ending
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _relay(self) -> None:
        """Write the lines of the process above the status line."""
        for line in self._process.stderr or ():
            sys.stderr.write(line.decode(errors="replace"))


class WorkerProcesses:
    """The service that keeps a number of worker processes running."""

    def __init__(self, context: Context, launch: Launch) -> None:
        self._context = context
        self._launch = launch
        self._numbers = range(1, context.settings.worker.count + 1)
        self._grace = context.settings.worker.shutdown_grace.total_seconds()
        self._telemetry = observe(context.events)
        self._live: dict[int, WorkerProcess] = {}  #: by their number, from 1
        self._gone: set[int] = set()  #: numbers whose process has ended and has not reported again
        self._parked = 0
        self._round = 0
        self._changed = asyncio.Event()

    @property
    def parked(self) -> int:
        """The number of dead letters."""
        return self._parked + sum(child.report.parked for child in self._live.values() if child.report)

    def problems(self) -> Iterator[str]:
        """Describe the processes that do not work."""
        for number in self._numbers:
            child = self._live.get(number)
            if child is None or child.report is None:
                yield f"{WORKER_PROCESS} {number} is starting"
            elif monotonic() - child.reported_at > SILENT_SECONDS:
                yield f"{WORKER_PROCESS} {number} does not answer"
            else:
                yield from (f"{WORKER_PROCESS} {number}: {problem}" for problem in child.report.problems)

    async def run(self, stop: asyncio.Event, *, until_idle: bool = False) -> None:
        """Keep the processes running until `stop` is set, or, if requested, until nothing is left to do."""
        leaving = asyncio.Event()
        with self._telemetry.loops.asking_also(self.problems):
            keeping = [asyncio.create_task(self._keep(each, leaving)) for each in self._numbers]
            ways = [asyncio.create_task(_told(stop))]
            if until_idle:
                ways.append(asyncio.create_task(self._until_idle()))
            try:
                done, _ = await asyncio.wait((*ways, *keeping), return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()  # an unexpected exception ends the service, which is then started again
                leaving.set()
                await self._leave(keeping)
            finally:
                for child in self._live.values():
                    child.kill()
                for task in (*keeping, *ways):
                    task.cancel()
                await asyncio.gather(*keeping, *ways, return_exceptions=True)

    async def _leave(self, keeping: list[asyncio.Task[None]]) -> None:
        for child in self._live.values():
            child.tell(LeaveMessage())
        _, late = await asyncio.wait(keeping, timeout=self._grace + LEAVE_SECONDS)
        if late:
            _log.error("%d worker processes did not end in time and were killed", len(self._live))

    async def _keep(self, number: int, leaving: asyncio.Event) -> None:
        """Start a process again when it ends, after a back-off."""
        pause = FIRST_PAUSE
        while not leaving.is_set():
            begun = monotonic()
            cause = await self._run_one(number)
            if leaving.is_set():
                return
            pause = FIRST_PAUSE if monotonic() - begun > STEADY_SECONDS else pause
            _log.error("worker process %d ended: %s; starting another in %g s", number, cause, pause)
            self._gone.add(number)
            self._context.events.emit(LoopEnded(service=SERVICE, loop=_loop(number), cause=cause))
            with suppress(TimeoutError):
                await wait_within(leaving, pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _run_one(self, number: int) -> str:
        """Run a process to its end, and return the cause of its end."""
        begin = Begin(launch=self._launch, parent_pid=os.getpid(), has_metrics=self._telemetry.has_metrics)
        try:
            child = WorkerProcess(number, begin, take=self._take)
        except OSError as error:  # such as no memory for another process
            return str(error)
        self._live[number] = child
        self._changed.set()
        try:
            await child.ended.wait()
        finally:
            del self._live[number]
            self._changed.set()
            if child.report is not None:
                self._parked += child.report.parked
            if self._telemetry.has_metrics:
                self._telemetry.metrics.children.end(child.serial)
        return f"process {child.pid}, {child.cause}"

    def _take(self, child: WorkerProcess, message: ToParent) -> None:
        match message:
            case WorkerReport():
                self._note(child, message)
            case IsIdle():
                child.idle = message
                self._changed.set()
            case _:
                assert_never(message)

    def _note(self, child: WorkerProcess, report: WorkerReport) -> None:
        before, child.report, child.reported_at = child.report, report, monotonic()
        if report.counted:
            self._telemetry.metrics.children.add(child.serial, report.counted)
        if ended := report.ended - (before.ended if before else 0):
            self._context.events.emit(RunsEndedInChild(count=ended))
        if child.number in self._gone:
            self._gone.discard(child.number)
            self._context.events.emit(LoopRestarted(service=SERVICE, loop=_loop(child.number)))

    async def _until_idle(self) -> None:
        """Wait for two equal rounds of answers: between them was an instant at which nothing ran.

        One round is not enough: a process may answer, and get work from a run of another that answers later.
        """
        before: dict[int, int] | None = None
        while True:
            answers = await self._ask_all()
            if answers is not None and answers == before:
                return
            before = answers

    async def _ask_all(self) -> dict[int, int] | None:
        """Return how many runs each process has begun, once all are idle; None if a process has ended."""
        asked = dict(self._live)
        self._round += 1
        for child in asked.values():
            child.tell(AskIdle(round=self._round))
        while self._live == asked:
            if len(asked) == len(self._numbers) and all(map(self._has_answered, asked.values())):
                return {child.pid: child.idle.begun for child in asked.values() if child.idle}
            self._changed.clear()
            await self._changed.wait()
        return None

    def _has_answered(self, child: WorkerProcess) -> bool:
        return child.idle is not None and child.idle.round == self._round


async def _told(stop: asyncio.Event) -> None:
    await stop.wait()


def _loop(number: int) -> str:
    return f"process {number}"
