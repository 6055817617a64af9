"""One application on one database, driven step by step from a test that is not asynchronous."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from gandy.loops.cycles import Record
from gandy.model.manifest import Declarations
from gandy.model.owners import Operator
from gandy.model.run import Failure, RunEnd, TrainState
from gandy.rules.deciding import missing_look
from gandy.rules.timetable import scheduled_at
from gandy.scheduler.repair import find_spent
from gandy.store.dispatching import DispatchRequest, claim_pending, dispatch
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.manifests import load_page, read_now
from gandy.store.queueing import open_due
from gandy.store.seeding import seed
from gandy.store.workers import LeaseRenewal, WorkerRegistration, register_worker, renew_lease
from gandy.work.dispatcher import DispatchCycleRequest, run_cycle
from tests.model.snapshot import open_reader, take_snapshot
from tests.support.history import Past
from tests.support.world import OWNER, PUNCTUAL, SPANS, open_world

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from gandy.model.manifest import GroupDeclaration, ManifestDeclaration
    from gandy.model.run import Activation, ClaimedRun, EndedBy
    from gandy.scheduler.cycle import CycleResult
    from gandy.store.finishing import FinishResult
    from gandy.store.statements import Operation
    from gandy.work.dispatcher import DispatchCycleResult as Dispatched
    from tests.model.snapshot import Snapshot
    from tests.support.world import World

T = TypeVar("T")

TRAINS = ("Bake", "Sell")
LEASE_SECONDS = 15.0
MOMENT = timedelta(microseconds=1)
SOMEBODY = Operator("somebody", "cli")
RULES = FinishRules(OWNER, SPANS, 10_000, retry=PUNCTUAL)
PAGE = 1_000
TABLES = (
    *("audit", "dead_letter", "log", "history", "service_state", "unique_key", "work_queue", "worker"),
    *("manifest_edge", "manifest_former_edge", "manifest_output", "manifest", "manifest_group"),
)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker was given; it may try to end it long after it has lost it."""

    run: ClaimedRun
    worker_id: str


class Site:
    """A database, its one clock, and short words for what processes do with it."""

    def __init__(self, url: str, now: datetime) -> None:
        self._first, self._shift = now, timedelta(0)
        self._loop = asyncio.new_event_loop()
        self.world: World = self.call(open_world(url, now))
        self.past = Past(self.world)
        self._reader = open_reader(url)

    @property
    def now(self) -> datetime:
        return self.world.clock.now

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end."""
        return self._loop.run_until_complete(work)

    def do(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        return self.call(self.world.database.run(operation))

    def advance(self, span: timedelta) -> None:
        self.world.clock.advance(span)

    def snapshot(self) -> Snapshot:
        return take_snapshot(self._reader, self.now)

    def close(self) -> None:
        self._reader.close()
        self.call(self.world.database.close())
        self._loop.close()

    def empty(self) -> None:
        """Begin again, at noon of the next day: a database's clock never goes back."""
        self._reader.clear(TABLES)
        noon = self.now.replace(hour=12, minute=0, second=0, microsecond=0)
        self.advance(noon + timedelta(days=1) - self.now)
        self._shift = self.now - self._first

    def jittered(
        self,
        external_id: str,
        due_at: datetime,
        variance: timedelta,
        *,
        next_due_at: datetime | None = None,
    ) -> datetime:
        """Jitter follows from the instant; without this, a life would go otherwise when it is lived again."""
        following = None if next_due_at is None else next_due_at - self._shift
        return scheduled_at(external_id, due_at - self._shift, variance, next_due_at=following) + self._shift

    def seed(self, manifests: Sequence[ManifestDeclaration], groups: Sequence[GroupDeclaration]) -> None:
        self.do(seed(Declarations(owner=OWNER, manifests=tuple(manifests), groups=tuple(groups))))

    def register(self, worker_id: str, trains: Sequence[str] = TRAINS) -> None:
        registration = WorkerRegistration(
            id=worker_id, owner=OWNER, host="here", pid=1, version="1", slots=5, trains=trains
        )
        self.do(register_worker(registration, LEASE_SECONDS))

    def renew(self, worker_id: str) -> bool:
        renewal = LeaseRenewal(id=worker_id, lease_seconds=LEASE_SECONDS, busy=0)
        return self.do(renew_lease(renewal)) is not None

    def cycle(self, *, trusts_leases: bool, limit: int | None = 200) -> CycleResult:
        """Run a cycle of the manager."""
        return self.call(self.world.cycle(trusts_leases=trusts_leases, max_entries_per_cycle=limit))

    def dispatch(self, cap: int | None) -> Dispatched:
        """Run a cycle of the dispatcher."""
        request = DispatchCycleRequest(
            owner=OWNER,
            known_trains=(),
            max_active_jobs=cap,
            is_cap_auto=False,
            max_per_group=100,
            default_timeout_seconds=1200.0,
        )
        record = Record(owner=OWNER, keep_for=timedelta(minutes=30))
        return self.call(run_cycle(self.world.database, request, record))

    def claim(self, worker_id: str, limit: int, *, is_pending: bool = False) -> list[Claim]:
        """Ask for work as a worker does, of the queue or of what a dispatcher made."""
        request = DispatchRequest(
            owner=OWNER,
            trains=TRAINS,
            limit=limit,
            per_group=100,
            default_timeout_seconds=1200.0,
            worker_id=worker_id,
        )
        if is_pending:
            return [Claim(run, worker_id) for run in self.do(claim_pending(request)).runs]
        self.do(open_due(OWNER))
        return [Claim(run, worker_id) for run in self.do(dispatch(request)).runs]

    def finish(
        self,
        claims: Sequence[Claim],
        state: TrainState,
        ended_by: EndedBy,
        *,
        activations: Mapping[int, tuple[Activation, ...]] | None = None,
        was_alone: bool = False,
    ) -> FinishResult:
        """Say how runs ended."""
        ends = [
            _end(claim, state, ended_by)._replace(
                activations=(activations or {}).get(claim.run.id, ()), was_alone=was_alone
            )
            for claim in claims
        ]
        return self.do(finish_runs(ends, RULES))

    def wrong_hints(self) -> list[str]:
        """Manifests that the manager would look at too late, or never."""
        return self.call(self.world.database.read(_wrong_hints()))


def _end(claim: Claim, state: TrainState, ended_by: EndedBy) -> RunEnd:
    run = claim.run
    return RunEnd(
        id=run.id,
        train=run.train,
        worker_id=claim.worker_id,
        fence=run.fence,
        state=state,
        ended_by=ended_by,
        manifest_id=run.manifest_id,
        output_json=str(run.id) if state is TrainState.COMPLETED else None,
        failure=None if state is TrainState.COMPLETED else Failure("work", "ValueError", "no"),
        failures=run.failures,
        losses=run.losses,
        lone_losses=run.lone_losses,
        max_retries=run.max_retries,
        is_retried=run.is_retried,
        unique_key=run.unique_key,
    )


def _wrong_hints() -> Operation[list[str]]:
    found = yield from load_page(0, PAGE)
    now = yield from read_now()
    spent = yield from find_spent(found.views)
    return [
        f"{view.external_id}: next look {view.next_look_at}, needed {look}"
        for view in found.views
        if (look := missing_look(view, now, is_spent=view.id in spent)) is not None
    ]
