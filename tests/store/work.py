"""Short words for what the tests do with the queue and with runs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gandy.model.run import EndedBy, Failure, RetentionSpans, RunEnd, TrainState
from gandy.settings import DatabaseSettings
from gandy.store.dispatching import DispatchRequest
from gandy.store.drivers.opening import open_database
from gandy.store.finishing import FinishRules
from gandy.store.queueing import EnqueueRequest, Uniqueness, enqueue
from gandy.store.statements import statement
from tests.support.world import OWNER, PUNCTUAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.model.run import ClaimedRun
    from gandy.store.drivers.database import Database
    from gandy.store.queueing import Enqueued
    from gandy.store.statements import Operation, Rows
    from tests.support.world import World

TRAIN = "Sell"
TRAINS = (TRAIN, "MakeReport")
WORKER = "worker-1"
SPANS = RetentionSpans(completed=timedelta(days=7), failed=timedelta(days=30), cancelled=timedelta(days=30))
ONE = EnqueueRequest(owner=OWNER, train=TRAIN, inputs=[None], input_type_name="Item")
RULES = FinishRules(OWNER, SPANS, 10_000, retry=PUNCTUAL)


async def queue(world: World, *inputs: str | None, **options: Any) -> Enqueued:  # noqa: ANN401
    """Enqueue one job for each input, or just one."""
    given: dict[str, Any] = {"owner": OWNER, "train": TRAIN, "input_type_name": "Item"}
    return await world.database.run(enqueue(EnqueueRequest(inputs=inputs or (None,), **{**given, **options})))


def unique(*keys: str, **options: Any) -> Uniqueness:  # noqa: ANN401
    return Uniqueness(keys=keys, **options)


def ask(limit: int = 100, *, worker_id: str | None = WORKER, **options: Any) -> DispatchRequest:  # noqa: ANN401
    """Ask for work as a worker does; without a worker, as the dispatcher does."""
    given: dict[str, Any] = {
        "owner": OWNER,
        "trains": TRAINS,
        "per_group": 100,
        "default_timeout_seconds": 1200.0,
    }
    return DispatchRequest(limit=limit, worker_id=worker_id, **{**given, **options})


def ended(run: ClaimedRun, state: TrainState = TrainState.COMPLETED, **options: Any) -> RunEnd:  # noqa: ANN401
    """The end of a run by the claim that owns it."""
    failure = Failure("work", "ValueError", "no") if state is TrainState.FAILED else None
    given: dict[str, Any] = {
        "worker_id": WORKER,
        "fence": run.fence,
        "manifest_id": run.manifest_id,
        "failure": failure,
        "failures": run.failures,
        "losses": run.losses,
        "lone_losses": run.lone_losses,
        "max_retries": run.max_retries,
        "is_retried": run.is_retried,
        "unique_key": run.unique_key,
        "ended_by": EndedBy.ITSELF,
    }
    return RunEnd(id=run.id, train=run.train, state=state, **{**given, **options})


def failed(run: ClaimedRun, **options: Any) -> RunEnd:  # noqa: ANN401
    return ended(run, TrainState.FAILED, **options)


def run_statement(name: str, /, **parameters: object) -> Operation[Rows]:
    """One named statement as an operation of its own."""
    return (yield statement(name, **parameters))


async def second_connection(world: World) -> Database:
    """Another process's view of the same database, under the same clock."""
    database = open_database(DatabaseSettings(url=world.url), clock=world.clock)
    await database.open()
    return database


def gates(world: World) -> list[str]:
    """The gates of what waits, in the order of ids."""
    return [
        row["gate"] for row in world.rows("SELECT gate FROM work_queue WHERE status = 'queued' ORDER BY id")
    ]


def entry(world: World, entry_id: int) -> dict[str, Any]:
    (row,) = world.rows("SELECT * FROM work_queue WHERE id = ?", entry_id)
    return row


RUN_COLUMNS = """id, train_state, name, attempt, worker_id, fence, created_at, start_time, end_time,
    keep_until, deadline_at, failure_exception, failure_reason, cancellation_reason, cancellation_requested,
    progress_done, progress_total"""


def run_row(world: World, run_id: int) -> dict[str, Any] | None:
    rows = world.rows(f"SELECT {RUN_COLUMNS} FROM metadata WHERE id = ?", run_id)  # noqa: S608
    return rows[0] if rows else None


def count(world: World, table: str, condition: str = "1 = 1") -> int:
    number: int = world.rows(f"SELECT count(*) AS number FROM {table} WHERE {condition}")[0]["number"]  # noqa: S608
    return number


def ids_of(rows: Sequence[ClaimedRun]) -> list[int]:
    return [row.id for row in rows]


def add_entry(
    world: World, external_id: str = "report", *, origin: str = "trigger", gate: str = "open"
) -> int:
    """Queue a manifest's entry past Gandy, due now."""
    now = world.clock.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    world.rows(
        """INSERT INTO work_queue (owner, train_name, input, manifest_id, manifest_group_id, origin, gate,
                                   due_at, scheduled_at, created_at)
           SELECT owner, name, properties, id, manifest_group_id, ?, ?, ?, ?, ?
           FROM manifest WHERE external_id = ?""",
        *(origin, gate, now, now, now, external_id),
    )
    found: int = world.rows("SELECT max(id) AS id FROM work_queue")[0]["id"]
    return found


async def is_somebody_waiting(world: World) -> bool:
    """Whether a connection of this database waits for another's lock."""
    return bool(
        world.rows(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
    )


async def is_somebody_listening(world: World) -> bool:
    """Whether a connection of this database has said that it listens."""
    return bool(
        world.rows(
            "SELECT pid FROM pg_stat_activity WHERE position('LISTEN gandy' IN query) > 0 "
            "AND datname = current_database() AND pid <> pg_backend_pid()"
        )
    )
