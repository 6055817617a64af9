"""What a database knows of the clock: the newest instant that was believed, and the highest one seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gandy.store.service_state import recall, remember
from gandy.store.statements import statement

if TYPE_CHECKING:
    from gandy.store.statements import Operation

_KEY: Final = "clock"
#: The mark is not written again before it is as old as this.
_GRAIN: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ClockMark:
    """What was on record when the clock was read."""

    now: datetime
    believed: datetime | None  #: the newest instant that a service believed; None: none has yet
    highest: datetime | None  #: whether it was believed or not

    def is_to_be_kept(self, *, is_believed: bool) -> bool:
        """Tell whether the mark on record is not as new as now; a minute makes no difference."""
        is_known = _is_same(self.believed, self.now) or not is_believed
        return not (is_known and _is_same(self.highest, self.now))

    def went_back(self, by: timedelta) -> bool:
        """Tell whether an instant was seen that lies further than this beyond now."""
        return self.highest is not None and self.highest > self.now + by


def read_mark() -> Operation[ClockMark]:
    """Read the clock and the mark: one row, by its key."""
    found = yield from recall(_KEY)
    now: datetime = (yield statement("read_clock"))[0].now
    if found is None:
        return ClockMark(now, None, None)
    return ClockMark(now, _instant(found["believed"]), _instant(found["highest"]))


def find_newest(mark: ClockMark) -> Operation[datetime | None]:
    """Find the newest instant on record; before the first mark, what any service wrote last."""
    if mark.believed is not None:
        return mark.believed
    newest: datetime | None = (yield statement("find_newest_instant"))[0].newest_at
    return newest


def keep_mark(mark: ClockMark, *, is_believed: bool, is_lowered: bool = False) -> Operation[None]:
    """Move the mark to now; an instant that is not believed moves only the highest.

    A clock that went back leaves the highest to the pass that puts right what it left.
    """
    if not mark.is_to_be_kept(is_believed=is_believed):
        return
    believed = mark.now if is_believed else mark.believed
    highest = mark.now if is_lowered or mark.highest is None else max(mark.now, mark.highest)
    value = {"believed": believed and believed.isoformat(), "highest": highest.isoformat()}
    yield from remember(_KEY, value)


def _is_same(before: datetime | None, after: datetime) -> bool:
    return before is not None and timedelta(0) <= after - before < _GRAIN


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
