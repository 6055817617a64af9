"""Deciding about many manifests at one instant: what they have in common is decided once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING

from gandy.model.manifest import Decision, DispatchView
from gandy.rules.due import determine

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Final

_NONE: Final = timedelta(0)


@dataclass(slots=True)
class Decider:
    """Determines, and remembers: manifests that differ only in who they are share their decision."""

    now: datetime
    _known: dict[object, Decision] = field(default_factory=dict)

    def determine(self, view: DispatchView) -> Decision:
        """Decide about one manifest; jitter is drawn for each, so that it is never shared."""
        if view.variance > _NONE:
            return determine(view, self.now)
        key = _key(view)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = determine(view, self.now)
            return known
        return Decision(
            view.id,
            known.next_scheduled_run,
            known.next_look_at,
            known.occurrence,
            known.skipped,
            known.deferred_by,
            known.parent_success_seen,
            known.problem,
        )


#: Who a manifest is, and what was read only to write it back.
_IDENTITY: Final = frozenset({"id", "external_id", "owner", "train", "group_id", "version", "completed_at"})
_DECIDING: Final = tuple(
    position for position, name in enumerate(DispatchView._fields) if name not in _IDENTITY
)
_key: Final = itemgetter(*_DECIDING)
