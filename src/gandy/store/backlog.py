"""Since when cycles have left something over: waiting for a place in a later one is no misfire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gandy.store.service_state import recall, remember

if TYPE_CHECKING:
    from gandy.model.manifest import DispatchView
    from gandy.store.statements import Operation

_KEY: Final = "manifest_manager.backlog"
#: Cycles that are further apart do not belong together: nobody evaluated in between.
_LONGEST_GAP: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Backlog:
    """A stretch of cycles, each of which found more due than it could take."""

    since: datetime
    until: datetime

    def mark(self, view: DispatchView) -> DispatchView:
        """Note on a snapshot since when its instant has been seen and had no place."""
        due_at = view.next_scheduled_run
        if due_at is None or due_at > self.until:
            return view
        return view._replace(deferred_since=max(due_at, self.since))


def recall_backlog(now: datetime) -> Operation[Backlog | None]:
    """Read the stretch that the last cycle left, if it goes on now."""
    found = yield from recall(_KEY)
    if found is None:
        return None
    backlog = Backlog(datetime.fromisoformat(found["since"]), datetime.fromisoformat(found["until"]))
    return backlog if now - backlog.until <= _LONGEST_GAP else None


def keep_backlog(now: datetime, before: Backlog | None, *, is_behind: bool) -> Operation[None]:
    """Begin the stretch, go on with it, or end it; most cycles have none and write nothing."""
    if is_behind:
        since = now if before is None else before.since
        yield from remember(_KEY, {"since": since.isoformat(), "until": now.isoformat()})
    elif before is not None:
        yield from remember(_KEY, None)
