"""An exception as the failure that is kept: bounded texts without secrets.

Nothing here trusts the exception: its class, its message and its attributes are the job's own code, which may
raise anything. Real types are read through `type` itself, and every other question has a fallback.
"""

from __future__ import annotations

import traceback
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.model.run import Failed, RetryRequest, Timings
from gandy.train.signals import Retry

if TYPE_CHECKING:
    from gandy.train.inside.run import Run

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
