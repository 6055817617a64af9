"""What Python itself writes about an exception that nothing caught in a thread or a finalizer."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

from gandy.train.inside.hidden import hidden_texts

if TYPE_CHECKING:
    from collections.abc import Callable


class MaskedReport:
    """Stands before a hook of the interpreter: a report that would show a secret is written with masks."""

    def __init__(self, before: Callable[[Any], object], title: Callable[[Any], str]) -> None:
        """Take the hook that was there, and what names the place in a report."""
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
    """Mask what threads and finalizers leave uncaught; more than once is once."""
    if not isinstance(threading.excepthook, MaskedReport):
        threading.excepthook = MaskedReport(threading.excepthook, _title_of_thread)
    if not isinstance(sys.unraisablehook, MaskedReport):
        sys.unraisablehook = MaskedReport(sys.unraisablehook, _title_of_finalizer)


def leave_reports() -> None:
    """Put back the hooks that were there, unless the application has put its own over ours."""
    if isinstance(threading.excepthook, MaskedReport):
        threading.excepthook = threading.excepthook.before
    if isinstance(sys.unraisablehook, MaskedReport):
        sys.unraisablehook = sys.unraisablehook.before


def _title_of_thread(found: threading.ExceptHookArgs) -> str:
    return f"Exception in thread {found.thread.name if found.thread else '?'}:"


def _title_of_finalizer(found: sys.UnraisableHookArgs) -> str:
    return f"{found.err_msg or 'Exception ignored in'}: {found.object!r}"
