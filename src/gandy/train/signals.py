"""What a junction returns or raises to steer its train. None of these is an error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from gandy.model.run import CancelledBy
from gandy.settings.bounds import check

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
