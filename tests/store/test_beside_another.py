"""A small application beside a large one: what it asks reads its own rows, not those of its neighbour."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from gandy.desk.groups import GroupDesk, WorkerDesk
from gandy.desk.home import Home
from gandy.desk.stats import StatsDesk
from gandy.desk.upcoming import UpcomingFilter, list_upcoming
from gandy.model.owners import OneOwner, Operator
from gandy.settings import DatabaseSettings
from gandy.store.cleanup import expired_runs, next_place
from gandy.store.dispatching import DispatchRequest, claim_pending, dispatch
from gandy.store.drivers.opening import migrate, open_database
from gandy.store.drivers.postgres_values import bind
from gandy.store.drivers.sqlite_values import StatementClock
from gandy.store.queueing import look_out, open_due
from gandy.store.reading import checkup, waits
from gandy.store.reading.listings import (
    EntryFilter,
    LetterFilter,
    RunFilter,
    list_entries,
    list_letters,
    list_runs,
)
from gandy.store.reading.tables import list_upkeep
from gandy.store.runs import claim_plain, load_run
from gandy.store.statements import Batch
from tests.store.volumes import explain
from tests.support.statements import machine_steps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation, Step
    from tests.store.volumes import PlanKind
    from tests.support.databases import SqliteHome
    from tests.support.postgres import PostgresServer

SQLITE_FILL: Final = Path(__file__).with_name("beside_another_sqlite.sql").read_text(encoding="utf-8")
MANY: Final = 20_000
FILL: Final = Path(__file__).with_name("beside_another.sql").read_text(encoding="utf-8")
SMALL: Final = OneOwner("small")
EXPIRED: Final = expired_runs(
    administrative=["MetadataCleanupTrain"], owner="small", names=["send"], before=datetime.now(UTC)
)
ME: Final = Operator("me", "cli")
ASK: Final = DispatchRequest(
    owner="small", worker_id="small", trains=["send", "ship"], limit=10, per_group=10,
    default_timeout_seconds=1200.0,
)  # fmt: skip


def fill(url: str, many: int) -> None:
    migrate(url)
    with psycopg.connect(url, autocommit=True) as link:
        link.execute(FILL.replace("{many}", str(many)).encode())
        link.execute(b"VACUUM ANALYZE")


def _reading(operation: Callable[[], Operation[Any]]) -> Callable[[Database], Awaitable[object]]:
    return lambda database: database.read(operation())


def _writing(operation: Callable[[], Operation[Any]]) -> Callable[[Database], Awaitable[object]]:
    return lambda database: database.run(operation())


ASKED: Final[dict[str, Callable[[Database], Awaitable[object]]]] = {
    "runs": _reading(lambda: list_runs(RunFilter(), SMALL)),
    "runs completed": _reading(lambda: list_runs(RunFilter(state="completed"), SMALL)),
    "runs failed": _reading(lambda: list_runs(RunFilter(state="failed"), SMALL)),
    "runs in progress": _reading(lambda: list_runs(RunFilter(state="in_progress"), SMALL)),
    "runs by start": _reading(lambda: list_runs(RunFilter(train="send", sort="start_time"), SMALL)),
    "runs of a train": _reading(lambda: list_runs(RunFilter(train="send"), SMALL)),
    "runs of a manifest": _reading(lambda: list_runs(RunFilter(manifest="m-1"), SMALL)),
    "a run": _reading(lambda: load_run(1, SMALL)),
    "entries": _reading(lambda: list_entries(EntryFilter(), SMALL)),
    "entries queued": _reading(lambda: list_entries(EntryFilter(status="queued"), SMALL)),
    "entries undispatched": _reading(lambda: list_entries(EntryFilter(status="undispatched"), SMALL)),
    "entries for later": _reading(lambda: list_entries(EntryFilter(gate="time"), SMALL)),
    "entries held": _reading(lambda: list_entries(EntryFilter(gate="manifest"), SMALL)),
    "entries dispatched": _reading(lambda: list_entries(EntryFilter(status="dispatched"), SMALL)),
    "entries waiting": _reading(lambda: list_entries(EntryFilter(status="waiting"), SMALL)),
    "entries by time": _reading(lambda: list_entries(EntryFilter(gate="time", sort="scheduled_at"), SMALL)),
    "entries skipped": _reading(lambda: list_entries(EntryFilter(status="skipped"), SMALL)),
    "letters": _reading(lambda: list_letters(LetterFilter(), SMALL)),
    "letters awaiting": _reading(lambda: list_letters(LetterFilter(status="awaiting_intervention"), SMALL)),
    "letters resolved": _reading(lambda: list_letters(LetterFilter(status="acknowledged"), SMALL)),
    "letters by resolution": _reading(
        lambda: list_letters(LetterFilter(status="acknowledged", sort="resolved_at"), SMALL)
    ),
    "expired runs": _reading(lambda: next_place(EXPIRED, None)),
    "home": lambda database: Home(database, "small").overview(),
    "glance": lambda database: Home(database, "small").glance(),
    "throughput": lambda database: Home(database, "small").throughput(),
    "groups": lambda database: GroupDesk(database, ME, owners=SMALL).list(),
    "workers": lambda database: WorkerDesk(database, ME, owners=SMALL).list(),
    "upcoming": lambda database: list_upcoming(database, SMALL, UpcomingFilter()),
    "stats": lambda database: StatsDesk(database, SMALL).trains(),
    "stats of manifests": lambda database: StatsDesk(database, SMALL).manifests(timedelta(hours=1)),
    "upkeep": _reading(lambda: list_upkeep("small", ["TableMaintenanceTrain", "MetadataCleanupTrain"])),
    "held trains": _reading(lambda: checkup.count_held_trains(SMALL)),
    "letters by train": _reading(lambda: checkup.count_letters_by_train(SMALL)),
    "old waits": _reading(
        lambda: waits.load_old_waits(SMALL, max_active_jobs=None, patience=timedelta(minutes=1))
    ),
    "groups that hold": _reading(lambda: waits.count_held_in_groups("small")),
    "a look-out": _writing(lambda: look_out("small", ["send", "ship"])),
    "opening": _writing(lambda: open_due("small")),
    "a claim": _writing(lambda: dispatch(ASK)),
    "a plain claim": _writing(lambda: claim_plain(ASK)),
    "a claim of pending runs": _writing(lambda: claim_pending(ASK)),
}


ONLY_POSTGRES: Final = {"a plain claim"}
#: Levels of the indexes that grew, and rows that lie beside those of another.
HIGHER_INDEXES: Final = 60
#: A list reads the newest rows of all first; then its own, each by an index instead of side by side.
OWN_ROWS: Final = 200


def allowance(question: str) -> int:
    return HIGHER_INDEXES + (OWN_ROWS if question.startswith(("runs", "entries", "letters")) else 0)


async def pages(
    url: str, statements: list[Step], kind: PlanKind = "force_custom_plan"
) -> dict[str, dict[str, int]]:
    """Return the pages that each question reads, by statement."""
    database = open_database(DatabaseSettings(url=url))
    await database.open()
    found: dict[str, dict[str, int]] = {}
    try:
        with psycopg.connect(url, autocommit=True) as link:
            for question, ask in ASKED.items():
                statements.clear()
                await ask(database)
                found[question] = {}
                first = "keep_order" if any(step.name == "keep_order" for step in statements) else None
                for step in list(statements):
                    if not isinstance(step, Batch) or step.rows:
                        plan = explain(link, step.name, kind, first, **bind(step))
                        found[question][step.name] = found[question].get(step.name, 0) + plan.pages
    finally:
        await database.close()
    return found


@pytest.mark.parametrize("kind", ["force_generic_plan", "force_custom_plan"])
async def test_a_small_application_on_postgresql_reads_no_more_beside_a_large_one(
    postgres_server: PostgresServer, statements: list[Step], kind: PlanKind
) -> None:
    read: list[dict[str, dict[str, int]]] = []
    for many in (0, MANY):
        with postgres_server.database(
            postgres_server.template(f"beside-{many}", partial(fill, many=many))
        ) as url:
            read.append(await pages(url, statements, kind))

    alone, beside = read
    assert {
        question: (alone[question], of_each)
        for question, of_each in beside.items()
        if sum(of_each.values()) > 2 * sum(alone[question].values()) + allowance(question)
    } == {}


def fill_sqlite(url: str, many: int) -> None:
    migrate(url)
    now = datetime.now(UTC)
    instants = {"now": now, "later": now + timedelta(hours=1), "earlier": now - timedelta(hours=1)}
    written = {name: f"{at:%Y-%m-%dT%H:%M:%S.%fZ}" for name, at in instants.items()}
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        StatementClock(lambda: now).register(file)
        for first, owner, count in ((0, "small", 100), (1_000_000, "large", many)):
            if count:
                file.executescript(SQLITE_FILL.format(owner=owner, count=count, first=first, **written))


async def steps(url: str, statements: list[Step]) -> dict[str, int]:
    """Return what SQLite's machine does for each question, in hundreds of its instructions."""
    database = open_database(DatabaseSettings(url=url))
    await database.open()
    found = {}
    try:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            file.row_factory = sqlite3.Row
            StatementClock(lambda: datetime.now(UTC)).register(file)
            for question, ask in ASKED.items():
                if question in ONLY_POSTGRES:
                    continue
                statements.clear()
                await ask(database)
                found[question] = sum(machine_steps(file, step) for step in list(statements))
    finally:
        await database.close()
    return found


async def test_a_small_application_on_sqlite_does_no_more_beside_a_large_one(
    sqlite_home: SqliteHome, statements: list[Step]
) -> None:
    done: list[dict[str, int]] = []
    for many in (0, MANY):
        with sqlite_home.database() as url:
            fill_sqlite(url, many)
            done.append(await steps(url, statements))

    alone, beside = done
    assert {
        question: (alone[question], number)
        for question, number in beside.items()
        if number > 2 * (alone[question] + allowance(question))
    } == {}
