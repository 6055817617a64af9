"""Whether a clock may be believed before anything is removed by age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Final

    from gandy.clock import Steadiness

#: A clock that is further than this from the newest instant on record may be wrong. It is a day, and a little
#: more, so that a command which runs once a day does not doubt the clock where it runs a minute later.
LONGEST_SILENCE: Final = timedelta(days=1, minutes=30)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a clock is not believed."""

    now: datetime
    newest: datetime | None  #: the newest instant on record; None: the clock itself was seen to jump

    @property
    def is_behind(self) -> bool:
        """Whether the clock lies far before what was believed: to act by it could repeat what was done."""
        return self.newest is not None and self.now < self.newest

    def __str__(self) -> str:
        if self.newest is None:
            return f"the clock was set by more than an hour and says {_told(self.now)} now"
        side = "beyond" if self.now > self.newest else "before"
        return (
            f"the clock says {_told(self.now)}, which is more than a day {side} {_told(self.newest)}, "
            "the newest instant on record"
        )


def doubt(now: datetime, newest: datetime | None, steadiness: Steadiness) -> Doubt | None:
    """Name the reason not to believe a clock; none in a fresh database, or after ten steady minutes."""
    if newest is not None and not steadiness.is_steady and abs(now - newest) > LONGEST_SILENCE:
        return Doubt(now, newest)
    return Doubt(now, None) if steadiness.has_jumped else None


def _told(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M}Z"
