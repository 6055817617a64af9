"""Places under a cap: filled as they fall free, told to others where they are not, and never held ahead."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pytest

from gandy.events import EventBus
from gandy.model.run import Completed
from gandy.store.dispatching import dispatch
from gandy.store.workers import HELD_PART
from gandy.work.finisher import Finisher
from gandy.work.tally import RunTally
from tests.store.work import RULES, ask, ended, queue
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gandy.model.run import ClaimedRun
    from gandy.store.dispatching import Dispatched
    from tests.support.world import World

CAP = 2


class Case(NamedTuple):
    """How many runs end, how many entries wait in their group and in another one, how many slots are free."""

    ends: int
    waiting: int
    elsewhere: int
    free: int


CASES = [Case(*numbers) for numbers in itertools.product((1, 2), (0, 1, 2), (0, 2), (0, 1, 2))]


@dataclass
class Ending:
    """Ends runs through a finisher that may claim for free slots, and notes what came of it."""

    world: World
    cap: int | None  #: over all groups
    caps: list[int] | None = None  #: to lock for a claim in one statement
    told: int = 0
    claimed: list[ClaimedRun] = field(default_factory=list)

    async def end(self, runs: list[ClaimedRun], free: int) -> None:
        hooks: Any = SimpleNamespace(wants=lambda _: False)
        session = self.world.database.session()
        request = ask(free, max_active_jobs=self.cap)
        joined: Any = SimpleNamespace(request=request, caps=self.caps, deliver=self._land)
        finisher = Finisher(
            (session, session),
            replace(RULES, is_capped=self.cap is not None),
            batch=100,
            hooks=hooks,
            events=EventBus(),
            on_drained=lambda: None,
            on_room=self._tell,
            join=lambda _: [joined] if free else [],
            is_busy=lambda: False,
            tally=RunTally(RULES.owner),
        )
        for run in runs:
            over: Any = SimpleNamespace(claimed=run, end=ended(run), outcome=Completed(None, ()), report=None)
            finisher.add(over)
        loop = asyncio.create_task(finisher.run())
        await eventually(partial(_is_written, finisher), "the ends are written")
        loop.cancel()
        await session.close()

    def _land(self, found: Dispatched | None) -> None:
        assert found is not None
        self.claimed += found.runs

    def _tell(self) -> None:
        self.told += 1


async def _is_written(finisher: Finisher) -> bool:
    return not finisher.unwritten


async def prepared(world: World, case: Case, cap: int | None) -> list[ClaimedRun]:
    """Fill the cap with runs, and queue what is to wait."""
    await queue(world, *["1"] * CAP, group="capped")
    world.rows(
        "UPDATE manifest_group SET max_active_jobs = ? WHERE name = 'capped'", CAP if cap is None else None
    )
    running = [run._replace(is_capped=True) for run in await world.claim()]
    for group, entries in (("capped", case.waiting), ("other", case.elsewhere)):
        if entries:
            await queue(world, *["1"] * entries, group=group)
    return running


@contextmanager
def listening(world: World) -> Iterator[Callable[[], list[str]]]:
    """Listen as another server does, and give what was heard; SQLite has no notifications."""
    if world.database.dialect == "sqlite":
        yield list
        return
    with psycopg.connect(world.url, autocommit=True) as link:
        link.execute("LISTEN gandy")
        yield lambda: [each.payload for each in link.notifies(timeout=0.05)]


@pytest.mark.parametrize("cap", [None, CAP], ids=["cap of a group", "cap of all runs"])
async def test_a_place_is_told_unless_the_same_transaction_fills_it(world: World, cap: int | None) -> None:
    told, filled, heard = [], [], []
    for case in CASES:
        running = await prepared(world, case, cap)
        ending = Ending(world, cap)
        with listening(world) as take:
            await ending.end(running[: case.ends], case.free)
            heard.append((case, "work:shop" in take()))
        own = [run for run in ending.claimed if cap is not None or run.group_id == running[0].group_id]
        filled.append((case, len(own) >= case.ends))
        told.append((case, ending.told > 0))
        for run in (*running[case.ends :], *ending.claimed):
            await world.finish(run)
        for run in await world.claim():
            await world.finish(run)

    assert told == [(case, not is_filled) for case, is_filled in filled]
    if world.database.dialect == "postgres":
        assert heard == told


@pytest.mark.parametrize("is_global", [False, True], ids=["caps of groups", "cap of all runs"])
@pytest.mark.parametrize("free", [0, 1, 2, 4])
async def test_what_is_under_a_cap_is_claimed_for_free_slots_alone(
    world: World, *, free: int, is_global: bool
) -> None:
    for group in ("first", "second", "open"):
        await queue(world, *["1"] * 3, group=group)
    if not is_global:
        world.rows("UPDATE manifest_group SET max_active_jobs = 2 WHERE name IN ('first', 'second')")
    open_group = world.rows("SELECT id FROM manifest_group WHERE name = 'open'")[0]["id"]
    request = ask(8, free_slots=free, max_active_jobs=5 if is_global else None)

    found = await world.database.run(dispatch(request))

    capped = [run for run in found.runs if run.is_capped]
    rooms = 5 if is_global else 4
    held = rooms // HELD_PART if is_global else 0  # of the two places of a group, none
    assert len(capped) == min(max(free, held), rooms)
    assert len([run for run in found.runs if run.group_id == open_group]) == 3 or is_global
    assert found.is_cut == (free < rooms), "the rest waits for a slot, not for the next poll"


async def test_of_much_room_under_a_cap_a_part_is_held_ahead(world: World) -> None:
    await queue(world, *["1"] * 50, group="wide")
    world.rows("UPDATE manifest_group SET max_active_jobs = 40 WHERE name = 'wide'")

    found = await world.database.run(dispatch(ask(30, free_slots=0)))

    assert (len(found.runs), found.is_cut) == (40 // HELD_PART, True)


async def test_a_disabled_group_under_a_cap_keeps_no_claimer_awake(world: World) -> None:
    await queue(world, *["1"] * 5, group="off")
    world.rows("UPDATE manifest_group SET max_active_jobs = 4, is_enabled = FALSE WHERE name = 'off'")

    found = await world.database.run(dispatch(ask(30, free_slots=2)))

    assert (found.runs, found.is_cut, found.is_contended) == ((), False, False)
