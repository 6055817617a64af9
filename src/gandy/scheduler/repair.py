"""The slow pass over all manifests: missed looks, and cursors of a clock that was wrong."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from gandy.rules.clocks import FAR, is_impossible
from gandy.rules.deciding import is_exhausted_view, missing_look
from gandy.rules.ending import USUAL, is_spent
from gandy.store.clocks import FarPlace, bring_back, keep_mark, load_far_cursors, put_right, read_mark
from gandy.store.manifests import load_page, read_now, set_looks
from gandy.store.owners import recall, remember, take_turn
from gandy.store.runs import read_policies
from gandy.store.waiting import repair_waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gandy.model.manifest import DispatchView
    from gandy.settings import RetrySettings
    from gandy.store.drivers.database import Runner
    from gandy.store.statements import Operation


_log = logging.getLogger("gandy.manifest_manager")
_CLOCK_TURN: Final = "manifest_manager.clock_turn"
_WALK: Final = "manifest_manager.clock_walk"
_EVERY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class ClockRepair:
    """What one step of the pass put right, and whether the next should follow at once."""

    cursors: int = 0
    is_going_on: bool = False


async def repair_clock(database: Runner, *, page: int, is_requested: bool = False) -> ClockRepair:
    """Look at the cursors that are furthest off, at most once a minute over all servers.

    Where an earlier clock was ahead of now, and wherever a page holds a wrong cursor, it goes on at once.
    """
    step = await database.run(_begin(page, is_requested=is_requested))
    cursors = step.cursors
    while step.is_going_on:
        step = await database.run(_walk(page))
        cursors += step.cursors
    return ClockRepair(cursors)


def put_right_all(views: Iterable[DispatchView], now: datetime) -> Operation[int]:
    """Put right those whose cursor is impossible, and log each."""
    repaired = 0
    for view in views:
        if _is_wrong(view, now) and (yield from put_right(view, now)):
            _log.error(
                "the next instant of %s was %s: a clock was wrong, and it is put right",
                view.external_id,
                view.next_scheduled_run,
            )
            repaired += 1
    return repaired


def _begin(page: int, *, is_requested: bool) -> Operation[ClockRepair]:
    is_turn = is_requested or (yield from take_turn(_CLOCK_TURN, every_seconds=_EVERY_SECONDS))
    if not is_turn:
        return ClockRepair()
    mark = yield from read_mark()
    yield from keep_mark(mark, is_believed=False, is_lowered=True)
    if mark.went_back(FAR):
        _log.error("the clock said %s and says %s now: what it left is put right", mark.highest, mark.now)
        yield from bring_back()
        yield from remember(_WALK, _stored(FarPlace(), is_whole=True))
    return (yield from _walk(page))


def _walk(page: int) -> Operation[ClockRepair]:
    """Look at one page; the walk is over where nothing further off than an hour is left."""
    found = yield from recall(_WALK)
    place, is_whole = _read(found)
    now = (yield from read_mark()).now
    views = yield from load_far_cursors(place, page)
    repaired = yield from put_right_all(views, now)
    is_end = len(views) < page
    if is_end and found is not None:
        yield from remember(_WALK, None)
    if not is_end:
        yield from remember(_WALK, _stored(FarPlace.of(views[-1]), is_whole=is_whole))
    return ClockRepair(repaired, is_going_on=not is_end and (is_whole or repaired > 0))


def _is_wrong(view: DispatchView, now: datetime) -> bool:
    """Judge a cursor; a schedule that cannot be evaluated has its own verdict when it is looked at."""
    try:
        return is_impossible(view, now)
    except Exception:  # noqa: BLE001 whatever one schedule raises, the others are judged
        return False


def _stored(place: FarPlace, *, is_whole: bool) -> dict[str, object]:
    at = [place.look_at.isoformat(), place.group_id, place.priority, place.id]
    return {"place": at, "is_whole": is_whole}


def _read(found: Any) -> tuple[FarPlace, bool]:  # noqa: ANN401 JSON, as this module wrote it
    if found is None:
        return FarPlace(), False
    look_at, group_id, priority, manifest_id = found["place"]
    return FarPlace(datetime.fromisoformat(look_at), group_id, priority, manifest_id), found["is_whole"]


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
    database: Runner, *, page: int, is_requested: bool = False, retry: RetrySettings = USUAL
) -> RepairResult:
    """Look at the next page, at most once a minute over all servers."""
    return await database.run(_repair(page, retry, is_requested=is_requested))


def _repair(page: int, retry: RetrySettings, *, is_requested: bool) -> Operation[RepairResult]:
    if not is_requested and not (yield from take_turn(_TURN, every_seconds=REPAIR_EVERY_SECONDS)):
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
    healed = yield from repair_waiting(place or 0, page)
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
