"""The slow pass over all manifests: a hint that is wrong is set right and counted, for it is a bug."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.admin.manifest_manager.clock_repair import put_right_all
from gandy.rules.deciding import is_exhausted_view, missing_look
from gandy.rules.ending import USUAL, is_spent
from gandy.store.manifests import load_page, read_now, set_looks
from gandy.store.owners import recall, remember, take_turn
from gandy.store.runs import read_policies
from gandy.store.waiting import heal_waiting

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from gandy.model.manifest import DispatchView
    from gandy.settings import RetrySettings
    from gandy.store.drivers.database import Runner
    from gandy.store.statements import Operation

_log = logging.getLogger("gandy.manifest_manager")
_TURN: Final = "manifest_manager.repair_turn"
_PLACE: Final = "manifest_manager.repair_place"
_WAITING_PLACE: Final = "manifest_manager.waiting_place"
REPAIR_EVERY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class RepairResult:
    """How many manifests were looked at, how many hints were wrong, and which entries were left behind."""

    looked_at: int = 0
    repaired: int = 0
    healed: int = 0  #: waiting entries that no other path had promoted, or whose manifest was gone


async def repair_hints(
    database: Runner, *, page: int, is_asked_for: bool = False, retry: RetrySettings = USUAL
) -> RepairResult:
    """Look at the next page, at most once a minute over all servers."""
    return await database.run(_repair(page, retry, is_asked_for=is_asked_for))


def _repair(page: int, retry: RetrySettings, *, is_asked_for: bool) -> Operation[RepairResult]:
    if not is_asked_for and not (yield from take_turn(_TURN, every_seconds=REPAIR_EVERY_SECONDS)):
        return RepairResult()
    place = yield from recall(_PLACE)
    found = yield from load_page(place or 0, page)
    now = yield from read_now()
    spent = yield from find_spent(found.views, retry)
    wrong = [
        (view, look)
        for view in found.views
        if (look := _missing_look(view, now, is_spent=view.id in spent)) is not None
    ]
    for view, look in wrong:
        _log.error("the next look at %s was %s, not %s", view.external_id, view.next_look_at, look)
    repaired = yield from set_looks(wrong)
    repaired += yield from put_right_all(found.views, now)
    healed = yield from _heal_waiting(page)
    is_end = len(found.views) < page
    yield from remember(_PLACE, 0 if is_end else found.views[-1].id)
    return RepairResult(len(found.views), repaired, healed)


def _heal_waiting(page: int) -> Operation[int]:
    """Promote entries that no other path did, such as behind runs that older code ended."""
    place = yield from recall(_WAITING_PLACE)
    healed = yield from heal_waiting(place or 0, page)
    if healed.promoted or healed.cancelled:
        _log.error(
            "%d waiting entries had been left behind, %d of them without their manifest",
            healed.promoted + healed.cancelled,
            healed.cancelled,
        )
    if place or healed.last_id:
        yield from remember(_WAITING_PLACE, healed.last_id or 0)
    return healed.promoted + healed.cancelled


def find_spent(views: Sequence[DispatchView], retry: RetrySettings = USUAL) -> Operation[frozenset[int]]:
    """Find the manifests that only a look can park: the others' next instant, or run, brings one."""
    idle = [view for view in views if not (view.has_active_execution or view.has_queued_work)]
    policies = yield from read_policies(view.id for view in idle if is_exhausted_view(view))
    at_once = replace(retry, park_window=timedelta.max)
    return frozenset(each for each, policy in policies.items() if is_spent(policy.failures, policy, at_once))


def _missing_look(view: DispatchView, now: datetime, *, is_spent: bool) -> datetime | None:
    """Say when to look at a manifest that cannot be evaluated: now, so that a cycle gives it its verdict."""
    try:
        return missing_look(view, now, is_spent=is_spent)
    except Exception:  # noqa: BLE001 whatever one schedule raises, the others are set right
        return None if view.next_look_at is not None else now
