"""The pass that finds what a wrong clock left: cursors, entries, leases and runs from the future."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from gandy.rules.clocks import FAR, is_impossible
from gandy.store.clocks import FarPlace, bring_back, keep_mark, load_far_cursors, put_right, read_mark
from gandy.store.owners import recall, remember, take_turn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gandy.model.manifest import DispatchView
    from gandy.store.drivers.database import Runner
    from gandy.store.statements import Operation

_log = logging.getLogger("gandy.manifest_manager")
_TURN: Final = "manifest_manager.clock_turn"
_WALK: Final = "manifest_manager.clock_walk"
_EVERY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class ClockRepair:
    """What one step of the pass put right, and whether the next should follow at once."""

    cursors: int = 0
    is_going_on: bool = False


async def repair_clock(database: Runner, *, page: int, is_asked_for: bool = False) -> ClockRepair:
    """Look at the cursors that are furthest off, at most once a minute over all servers.

    Where an earlier clock was ahead of now, and wherever a page holds a wrong cursor, it goes on at once.
    """
    step = await database.run(_begin(page, is_asked_for=is_asked_for))
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


def _begin(page: int, *, is_asked_for: bool) -> Operation[ClockRepair]:
    is_turn = is_asked_for or (yield from take_turn(_TURN, every_seconds=_EVERY_SECONDS))
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
