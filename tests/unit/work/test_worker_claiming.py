"""Claiming in virtual time: for any slots, lengths and caps, slots are busy while there is work."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gandy.context import Context
from gandy.errors import DatabaseUnreachableError
from gandy.loops.wakeups import Wakeups
from gandy.model.manifest import Declarations
from gandy.settings import load_settings
from gandy.store.dispatching import Dispatched
from gandy.work import buffer as pace
from gandy.work import claiming, pool
from gandy.work.buffer import RunBuffer
from gandy.work.pool import Pool
from tests.unit.work.virtual_time import let_pass, run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLAIM_SECONDS = 0.004
END_SECONDS = 0.003


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr(pace, "time", clock)
    monkeypatch.setattr(pool, "time", clock)
    monkeypatch.setattr(claiming, "dispatch", lambda request: request)
    monkeypatch.setattr(claiming, "claim_pending", lambda _: None)
    monkeypatch.setattr(claiming, "claim_plain", lambda request, _: request)


class Queue:
    """The queue in the database: entries, a cap, and how claims go wrong."""

    saves_trips = False

    def __init__(self, entries: int, *, cap: int | None = None) -> None:
        self.left = entries
        self.cap = cap
        self.active = 0
        self.claims = 0
        self.faults: Iterator[BaseException | None] = iter(())
        self.contended = 0
        self.plain_claims = 0
        self.is_plain = True
        self._id = 0

    async def run(self, request: Any) -> Dispatched:  # noqa: ANN401 - what the stubbed operations give
        if request is None:
            return Dispatched(())
        self.claims += 1
        fault = next(self.faults, None)
        await let_pass(CLAIM_SECONDS)
        if fault is not None:
            raise fault
        if self.contended:
            self.contended -= 1
            return Dispatched((), is_contended=True)
        room = request.limit if self.cap is None else max(self.cap - self.active, 0)
        count = min(request.limit, self.left, room)
        self.left -= count
        self.active += count
        return Dispatched(tuple(self._runs(count)), caps=())

    def _runs(self, count: int) -> Iterator[Any]:
        for _ in range(count):
            self._id += 1
            yield SimpleNamespace(id=self._id, losses=0, manifest_id=None, unique_key=None, is_capped=False)

    async def run_apart(self, request: Any) -> Dispatched:  # noqa: ANN401 - what the stubbed operations give
        self.plain_claims += 1
        return await self.run(request) if self.is_plain else Dispatched(())

    async def close(self) -> None:
        """Nothing to close."""


class Site:
    """A pool of slots on a queue, with jobs of one length."""

    def __init__(
        self,
        queue: Queue,
        *,
        slots: int,
        job_seconds: Callable[[int], float],
        prefetch: int,
        poll_every: timedelta = timedelta(hours=1),
    ) -> None:
        settings = load_settings(keywords={"worker": {"poll_every": poll_every}}, environ={}).settings
        database: Any = SimpleNamespace(session=lambda: queue)
        self.wakeups = Wakeups(database, "me")
        declared = Declarations(owner="me")
        context = Context(owner="me", settings=settings, database=database, declarations=declared)
        self.id, self.is_quiet, self.ends_when_idle = "worker", False, False
        self.queue = queue
        self.idle = 0
        self.begun: Counter[int] = Counter()
        self.busy_seconds = 0.0
        self.most_held = 0
        self._job_seconds = job_seconds
        self.pool = Pool(
            context,
            self,
            wakeups=self.wakeups,
            trains=["job"],
            slots=slots,
            prefetch=prefetch,
            suspects=RunBuffer(),
        )

    def note_idle(self, _: object, *, is_idle: bool) -> None:
        self.idle += is_idle

    async def run(self, seconds: float) -> float:
        """Work for so long; give the share of the time in which slots were busy."""
        loops = [asyncio.create_task(self.pool.claimer.run())]
        loops += [asyncio.create_task(self._slot()) for _ in range(self.pool.slots)]
        try:
            await let_pass(seconds)
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
        return self.busy_seconds / (seconds * self.pool.slots)

    async def _slot(self) -> None:
        while True:
            claimed = await self.pool.ready.get()
            self.pool.claimer.begin()
            self.begun[claimed.id] += 1
            self.most_held = max(self.most_held, len(self.pool.ready.runs))
            seconds = self._job_seconds(claimed.id)
            await let_pass(seconds)
            self.busy_seconds += seconds
            asyncio.get_running_loop().call_later(END_SECONDS, self._written)
            self.pool.claimer.end()

    def _written(self) -> None:
        """The end is on record: under a cap that makes room, of which the claimer is told."""
        self.queue.active -= 1
        if self.queue.cap is not None:
            self.pool.claimer.look()


def share(
    queue: Queue, *, slots: int, ms: float, prefetch: int = 2_000, seconds: float | None = None
) -> float:
    """Work on jobs of one length; by default for some thirty jobs of each slot."""
    seconds = seconds or 0.5 + 30 * ms / 1000

    async def measured() -> float:
        site = Site(queue, slots=slots, job_seconds=lambda _: ms / 1000, prefetch=prefetch)
        busy = await site.run(seconds)
        assert max(site.begun.values()) == 1, "no run is begun twice"
        return busy

    return run_virtual(measured())


@pytest.mark.parametrize("ms", [10, 20, 50, 100, 250, 500])
@pytest.mark.parametrize("slots", [1, 2, 3, 4, 8, 16, 64])
def test_slots_are_busy_while_the_queue_has_work(slots: int, ms: float) -> None:
    assert share(Queue(10**7), slots=slots, ms=ms) >= 0.95


@pytest.mark.parametrize("ms", [20, 100, 500])
@pytest.mark.parametrize("slots", [1, 4, 64])
def test_without_prefetch_a_slot_waits_for_its_claim_and_no_longer(slots: int, ms: float) -> None:
    busy = share(Queue(10**7), slots=slots, ms=ms, prefetch=0)

    assert busy >= 0.95 * ms / (ms + 2 * 1000 * CLAIM_SECONDS)


@pytest.mark.parametrize("cap", [1, 3, 8])
def test_a_place_under_a_cap_is_filled_when_its_end_is_on_record(cap: int) -> None:
    turnover = 50 + 1000 * (CLAIM_SECONDS + END_SECONDS)

    busy = share(Queue(10**7, cap=cap), slots=16, ms=50)

    assert busy >= 0.9 * (cap / 16) * 50 / turnover


def test_after_faults_the_slots_are_busy_again() -> None:
    queue = Queue(10**7)
    away = DatabaseUnreachableError("postgresql://there", "away")
    queue.faults = iter([None, *[away] * 12, RuntimeError("a bug"), away])

    assert share(queue, slots=8, ms=20, seconds=40) >= 0.5


def test_a_claim_that_met_another_ones_locks_is_repeated_soon() -> None:
    queue = Queue(10**7)
    queue.contended = 5

    assert share(queue, slots=8, ms=100) >= 0.85


def test_long_jobs_are_not_held_in_advance() -> None:
    async def measured() -> int:
        lengths = lambda number: 0.001 if number < 3_000 else 60.0  # noqa: E731
        site = Site(Queue(10**6), slots=10, job_seconds=lengths, prefetch=2_000)
        await asyncio.gather(site.run(30), _return_stalled(site))
        return len(site.pool.ready.runs)

    assert run_virtual(measured()) == 0


async def _return_stalled(site: Site) -> None:
    for _ in range(40):
        await let_pass(0.5)
        site.queue.left += len(site.pool.take_stalled())


def test_an_empty_queue_is_asked_again_only_when_it_is_told() -> None:
    async def measured() -> tuple[int, int, int]:
        queue = Queue(0)
        site = Site(queue, slots=4, job_seconds=lambda _: 0.01, prefetch=100)
        site.is_quiet = True
        working = asyncio.create_task(site.run(20))
        await let_pass(5)
        before = queue.claims
        queue.left = 3
        site.wakeups.wake("work")
        await let_pass(1)
        begun = len(site.begun)
        await working
        return before, begun, queue.claims

    before, begun, claims = run_virtual(measured())
    assert (before, begun) == (1, 3)
    assert claims <= 4


async def _look_for_nothing(site: Site) -> None:
    """What the lookout does while it sees nothing."""
    while True:
        await let_pass(2)
        site.pool.claimer.rest_on()


@pytest.mark.parametrize(
    ("ends_when_idle", "trouble", "most"),
    [(False, None, 2), (True, None, 40), (False, "fault", 40), (False, "contention", 40)],
)
def test_a_claimer_rests_on_only_behind_an_empty_queue_that_need_not_be_shown(
    ends_when_idle: bool, trouble: str | None, most: int
) -> None:
    async def measured() -> int:
        queue = Queue(0)
        if trouble == "fault":
            queue.faults = iter([DatabaseUnreachableError("db", "gone")] * 10_000)
        queue.contended = 10_000 if trouble == "contention" else 0
        site = Site(
            queue,
            slots=4,
            job_seconds=lambda _: 0.01,
            prefetch=100,
            poll_every=timedelta(seconds=2),
        )
        site.is_quiet, site.ends_when_idle = True, ends_when_idle
        looking = asyncio.create_task(_look_for_nothing(site))
        await site.run(80)
        looking.cancel()
        return queue.claims

    claims = run_virtual(measured())
    assert claims <= 2 if most == 2 else claims >= most / 2


@pytest.mark.parametrize("stays_plain", [True, False])
def test_a_job_after_a_plain_one_is_claimed_in_one_trip_and_any_other_all_the_same(stays_plain: bool) -> None:
    async def measured() -> tuple[list[int], int]:
        queue = Queue(0)
        queue.saves_trips = True
        site = Site(queue, slots=4, job_seconds=lambda _: 0.01, prefetch=100)
        working = asyncio.create_task(site.run(20))
        counts = []
        for number in range(3):
            await let_pass(1)
            queue.left, queue.is_plain = 1, stays_plain or number < 2
            site.wakeups.wake("work")
            await let_pass(1)
            counts.append(queue.plain_claims)
        begun = len(site.begun)
        await working
        return counts, begun

    # the first job teaches that jobs are plain; an idle poll is never plain
    assert run_virtual(measured()) == ([0, 1, 2], 3)


def test_a_wake_up_while_a_claim_is_on_its_way_is_not_forgotten() -> None:
    async def measured() -> int:
        queue = Queue(0)
        site = Site(queue, slots=4, job_seconds=lambda _: 0.01, prefetch=100)
        asyncio.get_running_loop().call_later(CLAIM_SECONDS * 0.9, site.wakeups.wake, "work")
        asyncio.get_running_loop().call_later(CLAIM_SECONDS * 1.5, setattr, queue, "left", 2)
        await site.run(20)
        return len(site.begun)

    assert run_virtual(measured()) == 2


def test_idleness_is_noted_when_a_quiet_worker_finds_nothing_and_not_before() -> None:
    async def measured() -> tuple[int, int]:
        queue = Queue(5)
        site = Site(queue, slots=1, job_seconds=lambda _: 1.0, prefetch=0)
        working = asyncio.create_task(site.run(20))
        await let_pass(10)
        while_busy, site.is_quiet = site.idle, True
        site.wakeups.wake("work")
        await working
        return while_busy, site.idle

    assert run_virtual(measured()) == (0, 1)


def test_what_is_held_stays_below_slots_and_prefetch() -> None:
    async def measured() -> int:
        site = Site(Queue(10**6), slots=10, job_seconds=lambda _: 0.0001, prefetch=50)
        await site.run(2)
        return site.most_held

    assert run_virtual(measured()) <= 60
