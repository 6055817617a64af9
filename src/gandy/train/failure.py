"""An exception as the failure that is kept: bounded texts without secrets."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

from gandy.model.outcome import Failed, RetryRequest, Timings
from gandy.train.signals import Retry

if TYPE_CHECKING:
    from gandy.train.inside.run import Run

MAX_REASON_CHARS: Final = 2_000
MAX_STACK_TRACE_CHARS: Final = 16_000


def failure(exception: BaseException, run: Run, *, junction: str | None, timings: Timings) -> Failed:
    """Describe what a junction raised."""
    return Failed(
        exception=exception,
        junction=junction,
        exception_type=type_path(type(exception)),
        reason=_bounded(run.without_secrets(_reason(exception)), MAX_REASON_CHARS),
        stack_trace=_bounded(run.without_secrets(_stack_trace(exception)), MAX_STACK_TRACE_CHARS),
        timings=timings,
        retry=RetryRequest(exception.after) if isinstance(exception, Retry) else None,
    )


def type_path(kind: type) -> str:
    """Return a class as module and name; a built-in one by its name alone."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _reason(exception: BaseException) -> str:
    """Return the exception's own words, which themselves may raise."""
    try:
        return str(exception) or type(exception).__name__
    except Exception as error:  # noqa: BLE001 - a broken __str__ must not hide the failure
        return f"{type(exception).__name__} (its message raised {type(error).__name__})"


def _stack_trace(exception: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(exception))
    except Exception as error:  # noqa: BLE001 - the same for what formatting calls
        return f"the stack trace cannot be formatted: {type(error).__name__}"


def _bounded(text: str, limit: int) -> str:
    """Keep both ends: the outermost call and the raise itself."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
