"""The run, as the code of a train uses it."""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from gandy.errors import ActivationError, NoCurrentRunError, PayloadError
from gandy.model.layout import MASK, SHORTEST_SECRET
from gandy.model.run import Activation
from gandy.settings.bounds import HIGHEST_NUMBER, LONGEST_NAME, check
from gandy.train.codec import encode_any
from gandy.train.failure import CancelRun
from gandy.train.log import RunLog, hidden_texts

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from gandy.model.run import CancelledBy
    from gandy.train.registry import AnyTrain


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line kept with a run; its time is relative to the run's start, which the database records."""

    offset_ns: int
    level: str
    logger: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run; a total of None means unknown."""

    done: int
    total: int | None


class RunSink(Protocol):
    """Receives the reports of runs. One sink may serve many runs; its methods are called from any thread."""

    def write_log(self, run: Run, line: LogLine) -> None:
        """Keep a log line."""
        ...

    def report_progress(self, run: Run, progress: Progress) -> None:
        """Keep the latest progress."""
        ...

    def activate(self, run: Run, activation: Activation) -> None:
        """Remember a dormant dependent to queue when the run completes."""
        ...


@dataclass(slots=True)
class MemorySink:
    """Keeps everything in lists: the sink of a run without a database."""

    lines: list[LogLine] = field(default_factory=list)
    progress: Progress | None = None
    activations: list[Activation] = field(default_factory=list)

    def write_log(self, run: Run, line: LogLine) -> None:  # noqa: ARG002 - one run only
        """Append the line."""
        self.lines.append(line)

    def report_progress(self, run: Run, progress: Progress) -> None:  # noqa: ARG002 - one run only
        """Replace the progress."""
        self.progress = progress

    def activate(self, run: Run, activation: Activation) -> None:  # noqa: ARG002 - one run only
        """Append the activation."""
        self.activations.append(activation)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of one run's log."""

    max_lines: int = 1000
    max_line_chars: int = 4000


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The origin and the reason of a request to stop a run."""

    by: CancelledBy
    reason: str


class DeclaredInput:
    """Marks an input that was not given: the dependent keeps its declared input."""


DECLARED_INPUT: Final = DeclaredInput()
DEFAULT_LIMITS: Final = RunLimits()


@dataclass(slots=True, eq=False, kw_only=True, weakref_slot=True)
class Run:
    """One execution of a train: its identity and its reports. Every method works in any thread."""

    id: int = 0  # 0 where the run has no record
    train: str = ""
    manifest: str | None = None
    due_at: datetime | None = None
    attempt: int = 1
    fence: int = 0
    sink: RunSink = field(default_factory=MemorySink, repr=False)
    limits: RunLimits = field(default=DEFAULT_LIMITS, repr=False)
    timeout_seconds: float = field(default=inf, repr=False)
    dormant: Mapping[str, AnyTrain] = field(default_factory=dict, repr=False)  # declared, by external id
    junction: str | None = None  # that runs now
    started_ns: int = field(default_factory=perf_counter_ns, repr=False)
    is_waiting: bool = field(
        default=False, init=False, repr=False
    )  # for a process: its timeout has not started
    begun_ns: int = field(
        default=0, init=False, repr=False
    )  # when its code began in a process; 0: at `started_ns`
    cancellation: Cancellation | None = field(default=None, init=False, repr=False)
    _log: RunLog | None = field(default=None, init=False, repr=False)
    _lines: int = field(default=0, init=False, repr=False)
    _secrets: tuple[str, ...] = field(default=(), init=False, repr=False)
    _waiting: asyncio.Future[Any] | None = field(default=None, init=False, repr=False)
    _interrupts: int = field(default=0, init=False, repr=False)

    @property
    def log(self) -> RunLog:
        """A logger whose lines are kept with the run; lines after its end are dropped."""
        if self._log is None:
            self._log = RunLog(self)
        return self._log

    @property
    def counts_from_ns(self) -> int:
        """The start of its timeout, on the clock of perf_counter_ns; not valid while `is_waiting`."""
        return self.begun_ns or self.started_ns

    @property
    def cancel_requested(self) -> bool:
        """Whether this run was asked to stop."""
        return self.cancellation is not None

    def raise_if_cancelled(self) -> None:
        """Raise CancelRun if this run was asked to stop."""
        if self.cancellation is not None:
            raise CancelRun(self.cancellation.reason, by=self.cancellation.by)

    def progress(self, done: int, total: int | None = None) -> None:
        """Report the progress of the run; after its end, this does nothing."""
        if type(done) is not int or not 0 <= done <= HIGHEST_NUMBER:  # a fast check: called often
            check("done", done, called="progress(done=...)")
        if total is not None:
            check("total", total, called="progress(total=...)")
        self.sink.report_progress(self, Progress(done, total))

    def activate(self, external_id: str, input: object = DECLARED_INPUT) -> None:
        """Queue a dormant dependent of this run's manifest once the run has completed.

        Raise ActivationError if the run has ended.
        """
        check("external_id", external_id, called="activate(external_id=...)")
        if self.without_secrets(external_id) != external_id:
            raise ActivationError("activate(): the id holds a secret of this run's input")
        self.sink.activate(self, self._activation(external_id, input))

    def _activation(self, external_id: str, value: object) -> Activation:
        """Check the input by the dependent's type if it is declared here, else when the run ends."""
        if isinstance(value, DeclaredInput):
            return Activation(external_id)
        train = self.dormant.get(external_id)
        if train is None:
            return Activation(external_id, encode_any(value))
        try:
            return Activation(external_id, train.input.encode(value), train.name)
        except PayloadError as error:
            raise ActivationError(f"activate({external_id!r}): {error}") from error

    def keep_line(self, level: str, logger: str, message: str) -> None:
        """Keep a log line, within the limits and without secrets."""
        with _counting:
            self._lines += 1
            line_number = self._lines
        if line_number > self.limits.max_lines + 1:
            return
        if line_number > self.limits.max_lines:
            level, logger = "WARNING", "gandy.run"
            message = f"this run has written {self.limits.max_lines} lines; later lines are not kept"
        offset_ns = perf_counter_ns() - self.started_ns
        name = self.without_secrets(logger)[:LONGEST_NAME]
        self.sink.write_log(self, LogLine(offset_ns, level, name, self.shown_line(message)))

    def shown_line(self, message: str) -> str:
        """Return a log line without secrets, and no longer than the limit."""
        return _shortened(self.without_secrets(message), self.limits.max_line_chars)

    def hide(self, secrets: tuple[str, ...]) -> None:
        """Mask these texts, too, in everything that is kept of this run; the longest first."""
        found = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
        hidden_texts.add(self, found.difference(self._secrets))
        self._secrets = tuple(sorted(found.union(self._secrets), key=len, reverse=True))

    @property
    def has_secrets(self) -> bool:
        """Whether its input contains secrets that its code could repeat."""
        return bool(self._secrets)

    def without_secrets(self, text: str) -> str:
        """Return the text with every known secret masked."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def request_cancel(self, by: CancelledBy, reason: str = "") -> None:
        """Ask the run to stop: at once if it awaits, else before its next junction."""
        if self.cancellation is None:  # the first reason stays
            self.cancellation = Cancellation(by, reason)
        waiting = self._waiting
        if waiting is not None:
            with suppress(RuntimeError):  # the loop closed meanwhile: nothing is left to interrupt
                waiting.get_loop().call_soon_threadsafe(self._interrupt)

    def interruptible(self, waiting: asyncio.Future[Any] | None) -> asyncio.Future[Any] | None:
        """Set the task or future that a request to cancel interrupts, if any, and return the previous one."""
        before, self._waiting = self._waiting, waiting
        return before

    def take_back_interrupts(self, task: asyncio.Task[Any] | None) -> bool:
        """Undo the cancellations of the task by `_interrupt`, and return whether there were any."""
        interrupts, self._interrupts = self._interrupts, 0
        if task is not None:
            for _ in range(interrupts):
                task.uncancel()
        return interrupts > 0

    def _interrupt(self) -> None:
        if self._waiting is not None:
            self._interrupts += 1
            self._waiting.cancel()


_counting = threading.Lock()
_current: ContextVar[Run | None] = ContextVar("gandy_current_run", default=None)
enter_run = _current.set
leave_run = _current.reset
running_now = _current.get


def current_run() -> Run:
    """Return the run that this code is part of, also in a junction's thread; raise outside of a run."""
    run = _current.get()
    if run is None:
        raise NoCurrentRunError
    return run


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text) - limit} characters more)"


class MaskedReport:
    """Wraps an exception hook of the interpreter and masks secrets in its report."""

    def __init__(self, before: Callable[[Any], object], title: Callable[[Any], str]) -> None:
        """Take the wrapped hook, and a function that makes the title of a report."""
        self.before = before
        self._title = title

    def __call__(self, found: Any) -> None:  # noqa: ANN401 each hook has a type of its own
        """Report one exception."""
        if not hidden_texts.is_empty and found.exc_value is not None:
            trace = "".join(traceback.format_exception(found.exc_value))
            text = f"{self._title(found)}\n{trace}"
            if (shown := hidden_texts.without(text)) != text:
                sys.stderr.write(shown)
                return
        self.before(found)


def mask_reports() -> None:
    """Mask uncaught exceptions of threads and finalizers; idempotent."""
    if not isinstance(threading.excepthook, MaskedReport):
        threading.excepthook = MaskedReport(threading.excepthook, _title_of_thread)
    if not isinstance(sys.unraisablehook, MaskedReport):
        sys.unraisablehook = MaskedReport(sys.unraisablehook, _title_of_finalizer)


def leave_reports() -> None:
    """Restore the wrapped hooks, unless the application has installed its own over them."""
    if isinstance(threading.excepthook, MaskedReport):
        threading.excepthook = threading.excepthook.before
    if isinstance(sys.unraisablehook, MaskedReport):
        sys.unraisablehook = sys.unraisablehook.before


def _title_of_thread(found: threading.ExceptHookArgs) -> str:
    return f"Exception in thread {found.thread.name if found.thread else '?'}:"


def _title_of_finalizer(found: sys.UnraisableHookArgs) -> str:
    return f"{found.err_msg or 'Exception ignored in'}: {found.object!r}"
