"""How runs end early: signals, recorded exceptions, containment of job code, and giving up."""

from __future__ import annotations

import logging
import signal
import traceback
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from gandy.model.run import CancelledBy, Failed, RetryRequest, Timings
from gandy.settings.bounds import BOUNDS, check

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Iterator

    from gandy.train.run import Run


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class End(Generic[Value]):
    """`return End(report)` ends the train early with this result; later junctions do not run."""

    value: Value


class Retry(Exception):  # noqa: N818 - a signal, not an error
    """`raise Retry(after=timedelta(minutes=2))` fails this attempt and requests another attempt."""

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        """Take the delay as a timedelta or in seconds; None means the job's retry delay."""
        super().__init__(reason or "the run asked for a retry")
        if after is not None:
            check("retry_after", after, called="Retry(after=...)")
        self.after = timedelta(seconds=after) if isinstance(after, int | float) else after


class CancelRun(BaseException):
    """Stops a run as cancelled. Like asyncio's own, it passes through `except Exception`."""

    def __init__(self, reason: str = "", *, by: CancelledBy = CancelledBy.RUN) -> None:
        """Take the reason; `by` is set if the request did not come from the run itself."""
        super().__init__(reason or f"cancelled by {by}")
        self.reason = reason
        self.by = by


MAX_REASON_CHARS: Final = 2_000
MAX_STACK_TRACE_CHARS: Final = 16_000
MAX_TYPE_CHARS: Final = 500
# A metaclass may override both names; these descriptors read the class itself.
_qualname_of = type.__dict__["__qualname__"].__get__
_module_of = type.__dict__["__module__"].__get__
_traceback_of = BaseException.__dict__["__traceback__"].__get__


def failure(exception: BaseException, run: Run, *, junction: str | None, timings: Timings) -> Failed:
    """Describe the exception of a junction; never raise."""
    return Failed(
        exception=exception,
        junction=junction,
        exception_type=type_path(type(exception)),
        reason=_bounded(run.without_secrets(message_of(exception)), MAX_REASON_CHARS),
        stack_trace=_bounded(run.without_secrets(_stack_trace(exception)), MAX_STACK_TRACE_CHARS),
        timings=timings,
        retry=_retry_of(exception),
    )


def type_path(kind: type) -> str:
    """Return module and name of a class; for a built-in class the name alone."""
    name = str.__str__(_qualname_of(kind))[:MAX_TYPE_CHARS]
    try:
        module = _module_of(kind)
    except AttributeError:  # the class has deleted it
        return name
    if not issubclass(type(module), str) or module == "builtins":
        return name
    return f"{str.__str__(module)[:MAX_TYPE_CHARS]}.{name}"


def message_of(exception: BaseException) -> str:
    """Return the exception's message, or name the exception that its `__str__` raised."""
    name = str.__str__(type.__dict__["__name__"].__get__(type(exception)))
    try:
        return str.__str__(str(exception)) or name  # a subclass of str could raise later
    except BaseException as error:  # noqa: BLE001 - a broken __str__ must not hide the failure
        return f"{name} (its message raised {type_path(type(error))})"


def _stack_trace(exception: BaseException) -> str:
    try:
        return str.__str__("".join(traceback.format_exception(exception)))
    except BaseException as error:  # noqa: BLE001 - formatting calls code of the exception and its causes
        return _plain_trace(exception, type_path(type(error)))


def _plain_trace(exception: BaseException, obstacle: str) -> str:
    """Return the frames, the type and the message, without causes and notes."""
    try:
        frames = "".join(traceback.format_tb(_traceback_of(exception)))
    except BaseException as error:  # noqa: BLE001 - a source loader of the job may raise anything
        frames = f"  (the frames cannot be formatted: {type_path(type(error))})\n"
    return (
        f"Traceback (most recent call last):\n{frames}{type_path(type(exception))}: {message_of(exception)}\n"
        f"(shown without its causes and notes: formatting them raised {obstacle})"
    )


def _retry_of(exception: BaseException) -> RetryRequest | None:
    """Return the requested retry; a subclass may lack its delay."""
    if not issubclass(type(exception), Retry):
        return None
    try:
        after = getattr(exception, "after", None)
    except BaseException:  # noqa: BLE001 - a property may raise anything
        after = None
    return RetryRequest(after if type(after) is timedelta else None)


def _bounded(text: str, limit: int) -> str:
    """Keep the beginning and the end: the outermost call and the raise."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


T = TypeVar("T")
logger = logging.getLogger("gandy.loop")


def run_contained(runner: asyncio.Runner, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, even if a job stops the event loop.

    SystemExit and KeyboardInterrupt raised by a task or callback of a job, and loop.stop(), stop the loop.
    The loop is intact and is started again. An OSError comes from the loop itself: its descriptors are
    closed, and it cannot continue.
    """
    loop = runner.get_loop()
    task = loop.create_task(main, name="gandy-main")
    while True:
        try:
            return loop.run_until_complete(task)
        except BaseException as error:
            if task.done() or _is_from_the_keyboard(error) or isinstance(error, OSError):
                raise
            with suppress(BaseException):  # a handler of the application may raise
                logger.error(  # noqa: TRY400 - formatting a hostile exception may raise
                    "a job stopped the event loop with %s: %s; the loop continues",
                    type_path(type(error)),
                    message_of(error),
                )


def _is_from_the_keyboard(error: BaseException) -> bool:
    """Return whether Ctrl-C raised it; that needs Python's default handler of SIGINT."""
    return type(error) is KeyboardInterrupt and signal.getsignal(signal.SIGINT) is signal.default_int_handler


_MOST_IN_A_GROUP: Final = 10_000
# read from the classes themselves: an exception or a metaclass may override both
_mro_of = type.__dict__["__mro__"].__get__
_members_of = BaseExceptionGroup.__dict__["exceptions"].__get__


def give_up_problems(kinds: object) -> tuple[str, ...]:
    """Describe the problems of `give_up_on` that its bound does not check."""
    if BOUNDS["give_up_on"].holds(kinds) and isinstance(kinds, tuple) and any(map(_is_retry, kinds)):
        return ("give_up_on cannot name Retry, which requests another attempt",)
    return ()


def _is_retry(kind: type) -> bool:
    return issubclass(kind, Retry)


def gives_up(exception: BaseException, kinds: tuple[type[Exception], ...]) -> bool:
    """Return whether an exception, or any exception of a group, is an instance of one of these classes.

    One exception of a group is enough: while one part must fail, no further attempt can succeed.
    """
    if not kinds:
        return False
    return any(kind in _mro_of(type(each)) for each in _leaves(exception) for kind in kinds)


def _leaves(exception: BaseException) -> Iterator[BaseException]:
    waiting = [exception]
    for _ in range(_MOST_IN_A_GROUP):
        if not waiting:
            return
        each = waiting.pop()
        yield each
        if BaseExceptionGroup in _mro_of(type(each)):
            waiting.extend(_members_of(each))
