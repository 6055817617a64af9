"""How runs end early: signals, exceptions as they are recorded, code that is contained, and giving up."""

from __future__ import annotations

import logging
import signal
import traceback
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
    """`raise Retry(after=timedelta(minutes=2))` fails this attempt and asks for another one."""

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        """Take the delay as a timedelta or in seconds; None leaves it to the job's own retry delay."""
        super().__init__(reason or "the run asked for a retry")
        if after is not None:
            check("retry_after", after, called="Retry(after=...)")
        self.after = timedelta(seconds=after) if isinstance(after, int | float) else after


class CancelRun(BaseException):
    """Stops a run as cancelled. Like asyncio's own, it passes through `except Exception`."""

    def __init__(self, reason: str = "", *, by: CancelledBy = CancelledBy.RUN) -> None:
        """Say why; `by` is filled in where somebody else asked for it."""
        super().__init__(reason or f"cancelled by {by}")
        self.reason = reason
        self.by = by


MAX_REASON_CHARS: Final = 2_000
MAX_STACK_TRACE_CHARS: Final = 16_000
MAX_TYPE_CHARS: Final = 500
# A metaclass may override both names; these read the class itself.
_qualname_of = type.__dict__["__qualname__"].__get__
_module_of = type.__dict__["__module__"].__get__
_traceback_of = BaseException.__dict__["__traceback__"].__get__


def failure(exception: BaseException, run: Run, *, junction: str | None, timings: Timings) -> Failed:
    """Describe what a junction raised; this never raises."""
    return Failed(
        exception=exception,
        junction=junction,
        exception_type=type_path(type(exception)),
        reason=_bounded(run.without_secrets(words_of(exception)), MAX_REASON_CHARS),
        stack_trace=_bounded(run.without_secrets(_stack_trace(exception)), MAX_STACK_TRACE_CHARS),
        timings=timings,
        retry=_retry_of(exception),
    )


def type_path(kind: type) -> str:
    """Return a class as module and name; a built-in one by its name alone."""
    name = str.__str__(_qualname_of(kind))[:MAX_TYPE_CHARS]
    try:
        module = _module_of(kind)
    except AttributeError:  # the class has deleted it
        return name
    if not issubclass(type(module), str) or module == "builtins":
        return name
    return f"{str.__str__(module)[:MAX_TYPE_CHARS]}.{name}"


def words_of(exception: BaseException) -> str:
    """Return the exception's own words, or which exception its words raised."""
    name = str.__str__(type.__dict__["__name__"].__get__(type(exception)))
    try:
        return str.__str__(str(exception)) or name  # a subclass of str could raise later
    except BaseException as error:  # noqa: BLE001 - a broken __str__ must not hide the failure
        return f"{name} (its message raised {type_path(type(error))})"


def _stack_trace(exception: BaseException) -> str:
    try:
        return str.__str__("".join(traceback.format_exception(exception)))
    except BaseException as error:  # noqa: BLE001 - formatting asks the exception and its causes
        return _plain_trace(exception, type_path(type(error)))


def _plain_trace(exception: BaseException, obstacle: str) -> str:
    """Return the frames alone, with what can be said of the exception without its help."""
    try:
        frames = "".join(traceback.format_tb(_traceback_of(exception)))
    except BaseException as error:  # noqa: BLE001 - a source file or a loader of the job's own
        frames = f"  (the frames cannot be formatted: {type_path(type(error))})\n"
    return (
        f"Traceback (most recent call last):\n{frames}{type_path(type(exception))}: {words_of(exception)}\n"
        f"(shown without its causes and notes: formatting them raised {obstacle})"
    )


def _retry_of(exception: BaseException) -> RetryRequest | None:
    """Return the retry that was asked for; a subclass may have lost its delay."""
    if not issubclass(type(exception), Retry):
        return None
    try:
        after = getattr(exception, "after", None)
    except BaseException:  # noqa: BLE001 - a property of the job's own
        after = None
    return RetryRequest(after if type(after) is timedelta else None)


def _bounded(text: str, limit: int) -> str:
    """Keep both ends: the outermost call and the raise itself."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


T = TypeVar("T")
logger = logging.getLogger("gandy.loop")


def run_contained(runner: asyncio.Runner, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, whatever ends the event loop before.

    SystemExit and KeyboardInterrupt leave the loop where a task or a callback of a job's own raises them, and
    loop.stop() ends it as well. The loop itself is unharmed: it is entered again. An OSError is the
    loop's own: its descriptors are closed, and it cannot go on.
    """
    loop = runner.get_loop()
    task = loop.create_task(main)
    while True:
        try:
            return loop.run_until_complete(task)
        except BaseException as error:
            if task.done() or _is_from_the_keyboard(error) or isinstance(error, OSError):
                raise
            logger.error(  # noqa: TRY400 - the words of a hostile exception are read with care
                "a job ended the event loop by %s: %s; the loop goes on",
                type_path(type(error)),
                words_of(error),
            )


def _is_from_the_keyboard(error: BaseException) -> bool:
    """A process that handles Ctrl-C by itself never gets this exception from the keyboard."""
    return type(error) is KeyboardInterrupt and signal.getsignal(signal.SIGINT) is signal.default_int_handler


_MOST_IN_A_GROUP: Final = 10_000
# read from the classes themselves: an exception or a metaclass may answer with code of its own
_mro_of = type.__dict__["__mro__"].__get__
_members_of = BaseExceptionGroup.__dict__["exceptions"].__get__


def give_up_problems(kinds: object) -> tuple[str, ...]:
    """Say in words what is wrong with the exceptions that a train gives up on, beyond their bound."""
    if BOUNDS["give_up_on"].holds(kinds) and isinstance(kinds, tuple) and any(map(_is_retry, kinds)):
        return ("give_up_on cannot name Retry, which asks for another attempt",)
    return ()


def _is_retry(kind: type) -> bool:
    return issubclass(kind, Retry)


def gives_up(exception: BaseException, kinds: tuple[type[Exception], ...]) -> bool:
    """Tell whether an exception, or any exception of a group, is of one of these classes or derived from one.

    Any of a group is enough: while one part is bound to fail, no further attempt of the whole can succeed.
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
