"""A database with a clock that only the test moves, and short words for what the tests do with it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from gandy.clock import ManualClock
from gandy.context import Context
from gandy.loops.cycles import Record, run_in_transaction
from gandy.model.manifest import Declarations, ManifestDeclaration
from gandy.model.owners import OneOwner
from gandy.model.run import EndedBy, Failure, RetentionSpans, RunEnd, TrainState
from gandy.model.schedule import Interval
from gandy.scheduler.cycle import CycleRequest
from gandy.scheduler.manager import ManifestManagerTrain
from gandy.settings import (
    DatabaseSettings,
    ManifestManagerSettings,
    RetentionSettings,
    RetrySettings,
    Settings,
)
from gandy.store.dispatching import DispatchRequest, dispatch
from gandy.store.drivers.opening import open_database
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.manifests import try_lock_cycle
from gandy.store.queueing import open_due
from gandy.store.seeding import seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.model.manifest import BatchDeclaration, GroupDeclaration
    from gandy.model.run import Activation, ClaimedRun
    from gandy.scheduler.cycle import CycleResult
    from gandy.store.drivers.database import Database
    from gandy.store.finishing import FinishResult
    from gandy.store.seeding import SeedResult

Link = psycopg.Connection[dict[str, Any]]

OWNER = "shop"
OWNERS = OneOwner(OWNER)
START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
WORKER = "worker-1"
SPANS = RetentionSpans(timedelta(days=7), timedelta(days=30), timedelta(days=30))
FIRST_SETTINGS = ManifestManagerSettings()
PUNCTUAL = RetrySettings(jitter=0)


def manifest(external_id: str = "report", **options: Any) -> ManifestDeclaration:  # noqa: ANN401 any field of it
    """Declare a manifest that only says what the test is about."""
    given: dict[str, Any] = {
        "train": "MakeReport",
        "input_json": '{"month":1}',
        "input_type_name": "Month",
        "schedule": Interval(timedelta(minutes=5)),
    }
    return ManifestDeclaration(external_id=external_id, **{**given, **options})


@dataclass
class World:
    """One application on one database."""

    url: str
    clock: ManualClock
    database: Database
    settings: ManifestManagerSettings = field(default=FIRST_SETTINGS)
    monotonic: Callable[[], float] = field(default=float)  # stands still, however slow the machine is
    links: list[Link] | None = None  # of `rows`, kept by a fixture that closes them: a new one takes longer

    def context(self, **parts: Any) -> Context:  # noqa: ANN401 any field of it
        """The application as its services see it."""
        given = {"settings": Settings(), "declarations": Declarations(owner=OWNER), **parts}
        return Context(owner=OWNER, database=self.database, **given)

    async def seed(
        self,
        *manifests: ManifestDeclaration,
        groups: tuple[GroupDeclaration, ...] = (),
        batches: tuple[BatchDeclaration, ...] = (),
        owner: str = OWNER,
    ) -> SeedResult:
        declared = Declarations(owner=owner, groups=groups, manifests=manifests, batches=batches)
        return await self.database.run(seed(declared))

    async def cycle(self, *, trusts_leases: bool = False, **settings: Any) -> CycleResult:  # noqa: ANN401 any setting
        """Run one cycle; it must get the lock."""
        request = CycleRequest(
            settings=replace(self.settings, **settings),
            retention=RetentionSettings(),
            retry=PUNCTUAL,
            trusts_leases=trusts_leases,
            monotonic=self.monotonic,
        )
        result = await run_in_transaction(
            self.database,
            ManifestManagerTrain,
            request,
            record=Record(owner=OWNER, keep_for=timedelta(minutes=30)),
            lock=try_lock_cycle if request.settings.advisory_lock else None,
        )
        assert result is not None
        return result

    async def claim(
        self, *trains: str, worker_id: str | None = WORKER, limit: int = 1_000
    ) -> list[ClaimedRun]:
        """Turn what is ready, of these trains or of all, into runs of a worker."""
        await self.database.run(open_due(OWNER))
        if worker_id is not None:
            self.know_worker(worker_id)
        known = [row["train_name"] for row in self.rows("SELECT DISTINCT train_name FROM work_queue")]
        request = DispatchRequest(
            owner=OWNER,
            trains=trains or known,
            limit=limit,
            per_group=limit,
            default_timeout_seconds=1200.0,
            worker_id=worker_id,
        )
        return list((await self.database.run(dispatch(request))).runs)

    async def finish(
        self,
        *runs: ClaimedRun,
        state: TrainState = TrainState.COMPLETED,
        ended_by: EndedBy = EndedBy.ITSELF,
        activations: tuple[Activation, ...] = (),
        is_bare: bool = False,
        output_json: str | None = None,
        gives_up: bool = False,
    ) -> FinishResult:
        failure = Failure("work", "ValueError", "no") if state is TrainState.FAILED else None
        ends = [
            RunEnd(
                id=run.id,
                train=run.train,
                worker_id=WORKER,
                fence=run.fence,
                state=state,
                ended_by=ended_by,
                manifest_id=run.manifest_id,
                failure=failure,
                failures=run.failures,
                max_retries=run.max_retries,
                is_retried=run.is_retried,
                unique_key=run.unique_key,
                activations=activations,
                is_bare=is_bare,
                output_json=output_json,
                gives_up=gives_up,
            )
            for run in runs
        ]
        return await self.database.run(finish_runs(ends, FinishRules(OWNER, SPANS, 10_000, retry=PUNCTUAL)))

    async def succeed(self) -> int:
        """Run everything that is ready, successfully."""
        runs = await self.claim()
        await self.finish(*runs)
        return len(runs)

    async def fail(self) -> int:
        """Run everything that is ready, in vain."""
        runs = await self.claim()
        await self.finish(*runs, state=TrainState.FAILED)
        return len(runs)

    def stamp(self, after: timedelta = timedelta(0)) -> str:
        """Write an instant from now as both databases read it."""
        return (self.clock.now + after).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def know_worker(self, worker_id: str, state: str = "running") -> None:
        """Write the row of a worker that no lease ever takes away, unless there is one."""
        now, later = self.stamp(), self.stamp(timedelta(days=3_650))
        self.rows(
            "INSERT INTO worker (id, owner, host, pid, version, started_at, last_seen_at, lease_expires_at, "
            "slots, state) VALUES (?, ?, 'here', 1, '1', ?, ?, ?, 1, ?) ON CONFLICT DO NOTHING",
            *(worker_id, OWNER, now, now, later, state),
        )

    def advance(self, **span: float) -> datetime:
        return self.clock.advance(timedelta(**span))

    def rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Read, or break, what is stored, past Gandy."""
        if self.url.startswith("sqlite"):
            return self._sqlite_rows(query, parameters)
        if self.links is None:
            with self._connect() as link:
                return _postgres_rows(link, query, parameters)
        if not self.links:
            self.links.append(self._connect())
        try:
            return _postgres_rows(self.links[0], query, parameters)
        except psycopg.OperationalError:
            if not self.links[0].broken:
                raise
            self.links.clear()  # the test has ended every connection
            return self.rows(query, *parameters)

    def close_links(self) -> None:
        """Close what `rows` has kept open."""
        for link in self.links or ():
            link.close()

    def _connect(self) -> Link:
        link = psycopg.connect(
            self.url,
            autocommit=True,
            prepare_threshold=None,
            options="-c search_path=gandy -c timezone=UTC",
            row_factory=dict_row,
        )
        link.adapters.register_loader("date", TextLoader)  # a bucket may be infinite
        return link

    def _sqlite_rows(self, query: str, parameters: tuple[object, ...]) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=30)) as link:
            link.row_factory = sqlite3.Row
            rows = [dict(row) for row in link.execute(query, parameters).fetchall()]
            link.commit()
            return rows

    def manifest(self, external_id: str = "report") -> dict[str, Any]:
        (row,) = self.rows("SELECT * FROM manifest WHERE external_id = ?", external_id)
        return row

    def entries(self, external_id: str = "report") -> list[dict[str, Any]]:
        """The ledger of a manifest, oldest first: its entries, and its ended runs as dispatched ones."""
        ended = self.rows(
            "SELECT h.*, h.name AS train_name, 'dispatched' AS status, NULL AS reason, NULL AS error, "
            "NULL AS due_until, 1 AS occurrences, h.created_at AS dispatched_at, h.id AS metadata_id, "
            "'open' AS gate "
            "FROM history h JOIN manifest m ON m.id = h.manifest_id WHERE m.external_id = ?",
            external_id,
        )
        entries = self.rows(
            "SELECT q.* FROM work_queue q JOIN manifest m ON m.id = q.manifest_id WHERE m.external_id = ?",
            external_id,
        )
        for row in ended:
            row["scheduled_at"] = row["scheduled_at"] or row["due_at"]
        return sorted([*entries, *ended], key=lambda row: (row["due_at"], row["id"]))

    def verdicts(self, external_id: str = "report") -> list[tuple[str, str | None, int]]:
        return [(row["status"], row["reason"], row["occurrences"]) for row in self.entries(external_id)]

    def instant(self, value: object) -> datetime:
        """Read an instant of a row, whichever database it came from."""
        return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))


def _postgres_rows(link: Link, query: str, parameters: tuple[object, ...]) -> list[dict[str, Any]]:
    cursor = link.execute(query.replace("?", "%s").encode(), parameters)
    return cursor.fetchall() if cursor.description else []


async def open_world(url: str, now: datetime = START) -> World:
    """Open a migrated database under a clock that stands still."""
    clock = ManualClock(now)
    database = open_database(DatabaseSettings(url=url), clock=clock)
    await database.open()
    return World(url, clock, database)
