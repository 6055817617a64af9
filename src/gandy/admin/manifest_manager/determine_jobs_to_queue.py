"""The decisions: pure rules over the snapshots, time-based manifests first, then dependents."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.admin.manifest_manager.cycle import DeterminedJobs, FreshManifests, LoadedManifests
from gandy.model.manifest import Decision, DispatchView
from gandy.model.schedule import Dependent
from gandy.rules.deciding import Decider

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Final

_log = logging.getLogger("gandy.manifest_manager")

#: A schedule that cannot be read here may be readable after the next deploy.
_UNREADABLE_RETRY_AFTER: Final = timedelta(hours=1)


def determine_jobs_to_queue(loaded: LoadedManifests, fresh: FreshManifests) -> DeterminedJobs:
    """Decide about each manifest; sync, so that thousands of decisions do not hold up the event loop."""
    return decide_all(fresh, loaded.now)


def decide_all(fresh: FreshManifests, now: datetime) -> DeterminedJobs:
    """Decide about each manifest at one instant; only what changes something is given."""
    timed = [view for view in fresh.views if not isinstance(view.schedule, Dependent)]
    dependents = [view for view in fresh.views if isinstance(view.schedule, Dependent)]
    decider = Decider(now)
    decided = (
        (view, _decide(view, decider, fresh.unreadable.get(view.id))) for view in (*timed, *dependents)
    )
    return DeterminedJobs(tuple(pair for pair in decided if _changes(*pair)))


def _decide(view: DispatchView, decider: Decider, problem: str | None) -> Decision:
    if problem is None:
        try:
            return decider.determine(view)
        except Exception as error:  # noqa: BLE001 whatever one schedule raises, the others are decided
            problem = f"it cannot be evaluated: {type(error).__name__}: {error}"
            _log.error("manifest %s: %s", view.external_id, problem)
    look_again = decider.now + _UNREADABLE_RETRY_AFTER
    return Decision(view.id, view.next_scheduled_run, next_look_at=look_again, problem=problem)


def _changes(view: DispatchView, decision: Decision) -> bool:
    return (
        decision.has_verdict
        or decision.problem is not None
        or decision.next_scheduled_run != view.next_scheduled_run
        or decision.next_look_at != view.next_look_at
    )
