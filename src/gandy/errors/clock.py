"""What can be wrong with an instant or a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class NaiveInstantError(GandyError, ValueError):
    """An instant without a time zone."""

    def __init__(self, instant: datetime) -> None:
        super().__init__(f"{instant.isoformat()} has no time zone; use an aware one, as of datetime.now(UTC)")
        self.instant = instant


class ClockReversedError(GandyError, ValueError):
    """A manual clock was told to go back."""

    def __init__(self, span: timedelta) -> None:
        super().__init__(f"a clock does not go back; advance it by zero or more, not by {span}")
        self.span = span


class ClockDoubtedError(GandyError):
    """The clock cannot be believed, so that nothing is removed by age."""

    def __init__(self, doubt: str) -> None:
        super().__init__(
            f"nothing is removed: {doubt}; set the clock right, leave a service running for ten minutes, "
            "or vouch for the clock with --yes"
        )
        self.doubt = doubt
