"""Suspects share processes in sets that each loss halves; what cannot leave runs alone."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gandy.model.run import ClaimedRun
from gandy.rules.ending import most_in_set
from gandy.train.base import Engine
from gandy.train.definition import TrainDefinition, define_function
from gandy.train.process.runner import RunSet
from gandy.train.registry import Registry
from gandy.work.attendant import Suspects
from gandy.work.buffer import RunBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def leaving(number: int) -> None:
    """Can run in any process."""


def bound(number: int) -> None:
    """Needs what only this process has."""


def claimed(run_id: int, losses: int, train: str = "leaving") -> ClaimedRun:
    return ClaimedRun(
        id=run_id,
        fence=1,
        train=train,
        input_json="1",
        manifest_id=None,
        manifest=None,
        group_id=1,
        due_at=NOW,
        attempt=losses + 1,
        started_at=NOW,
        waited_since=NOW,
        failures=0,
        losses=losses,
        lone_losses=0,
        max_retries=None,
        is_retried=True,
        retry_delay_seconds=None,
        timeout_seconds=60.0,
        unique_key=None,
    )


class OpenEngine(Engine):
    """Starts no process, and remembers which sets were made."""

    def can_leave(self, definition: TrainDefinition[object, object]) -> bool:
        return definition.name == "leaving"

    @contextmanager
    def isolation(self, size: int, *, is_here: bool = False) -> Iterator[RunSet]:
        yield RunSet(size, is_here=is_here)


class Ground:
    """A buffer of suspects, and the runs that were begun of it."""

    def __init__(self, *, slots: int = 200, processes: int = 2) -> None:
        registry = Registry()
        registry.add(define_function(leaving))
        registry.add(define_function(bound))
        self.buffer = RunBuffer()
        self.begun: dict[int, RunSet] = {}
        self.over: dict[int, asyncio.Event] = {}
        self.suspects = Suspects(
            self.buffer, OpenEngine(), registry, run_one=self.run_one, slots=slots, processes=processes
        )

    async def run_one(self, run: ClaimedRun, together: RunSet) -> None:
        self.begun[run.id] = together
        self.over[run.id] = asyncio.Event()
        await self.over[run.id].wait()

    @property
    def sets(self) -> list[int]:
        """The sizes of the sets that were begun, in their order."""
        return [together.size for together in dict.fromkeys(self.begun.values())]

    def end(self, *run_ids: int) -> None:
        for run_id in run_ids:
            self.over[run_id].set()


async def settled(ground: Ground, begun: int) -> None:
    for _ in range(20):  # some turns of the loop, which nothing here waits longer for
        await asyncio.sleep(0)
    assert len(ground.begun) == begun


@contextmanager
def running(ground: Ground) -> Iterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(ground.suspects.run())
    try:
        yield task
    finally:
        task.cancel()


@pytest.mark.parametrize(
    ("losses", "most"), [(0, 128), (2, 128), (3, 64), (4, 32), (8, 2), (9, 1), (10, 1), (1_000_000, 1)]
)
def test_each_loss_halves_the_largest_set(losses: int, most: int) -> None:
    assert most_in_set(losses, waiting=1_000) == most


@pytest.mark.parametrize(
    ("losses", "waiting", "most"), [(2, 5, 5), (3, 5, 3), (3, 2, 1), (3, 1, 1), (4, 3, 2)]
)
def test_suspects_that_are_back_are_halved_by_their_number(losses: int, waiting: int, most: int) -> None:
    assert most_in_set(losses, waiting) == most


@pytest.mark.parametrize("innocents", [1, 5, 40])
@pytest.mark.parametrize("killers", [{0}, {0, 1}, {0, 2, 3}])
async def test_an_innocent_dies_no_more_often_than_halving_needs(killers: set[int], innocents: int) -> None:
    """A killer ends its whole set; the dead come back with one loss more until they die or end alone."""
    ground = Ground(processes=2)
    total = len(killers) + innocents
    suspects = dict.fromkeys(killers) | dict.fromkeys(range(100, 100 + innocents))
    began: Counter[int] = Counter()
    losses = dict.fromkeys(suspects, 2)
    ground.buffer.put([claimed(number, losses=2) for number in suspects])
    with running(ground):
        for _ in range(40):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            sets: dict[RunSet, list[int]] = {}
            for number in [each for each in ground.begun if not ground.over[each].is_set()]:
                sets.setdefault(ground.begun[number], []).append(number)
            back = []
            for members in sets.values():
                began.update(members)
                ground.end(*members)
                if killers.intersection(members) and len(members) > 1:
                    losses.update((number, losses[number] + 1) for number in members)
                    back += [claimed(number, losses=losses[number]) for number in members]
            for _ in range(10):
                await asyncio.sleep(0)
            ground.buffer.put(back)
    most = 2 + math.ceil(math.log2(total))
    assert set(began) == set(suspects)
    assert max(began.values()) <= most


async def test_a_hundred_suspects_share_one_process() -> None:
    ground = Ground()
    ground.buffer.put([claimed(number, losses=2) for number in range(100)])
    with running(ground):
        await settled(ground, 100)
        assert ground.sets == [100]


async def test_sets_are_no_larger_than_their_losses_allow_and_do_not_mix_them() -> None:
    ground = Ground(processes=10)
    ground.buffer.put([claimed(number, losses=7) for number in range(6)])
    ground.buffer.put([claimed(10 + number, losses=9) for number in range(2)])
    ground.buffer.put([claimed(20, losses=2)])
    with running(ground):
        await settled(ground, 9)
        assert ground.sets == [3, 2, 1, 1, 1, 1]


async def test_what_has_no_process_waits_in_the_buffer_and_begins_when_a_set_is_over() -> None:
    ground = Ground(processes=1)
    ground.buffer.put([claimed(1, losses=9), claimed(2, losses=9)])
    with running(ground):
        await settled(ground, 1)
        assert ground.buffer.ids == [2]
        ground.end(1)
        await settled(ground, 2)
        assert ground.buffer.ids == []


async def test_no_more_suspects_go_on_than_there_are_slots() -> None:
    ground = Ground(slots=3)
    ground.buffer.put([claimed(number, losses=2) for number in range(5)])
    with running(ground):
        await settled(ground, 3)
        ground.end(0, 1, 2)
        await settled(ground, 5)
        assert ground.sets == [3, 2]


async def test_jobs_that_cannot_leave_go_one_by_one_beside_the_sets() -> None:
    ground = Ground()
    ground.buffer.put([claimed(1, 2, "bound"), claimed(2, 2, "bound"), claimed(3, 2), claimed(4, 2, "gone")])
    with running(ground):
        await settled(ground, 2)
        assert ground.begun[1].is_here
        assert not ground.begun[3].is_here
        ground.end(1)
        await settled(ground, 3)
        ground.end(2)
        await settled(ground, 4)
        assert ground.begun[4].is_here, "a train that is not known needs no process to say so"


async def test_the_end_of_the_loop_ends_its_runs() -> None:
    ground = Ground()
    ground.buffer.put([claimed(1, losses=2)])
    with running(ground) as task:
        await settled(ground, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait(others, timeout=5)
    assert all(each.done() for each in others)
