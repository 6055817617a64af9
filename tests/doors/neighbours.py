"""Two applications in one database: one that calls, and a neighbour with the same names in every state."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from gandy import Gandy, Run, every
from gandy.desk.cancelling import CancelDesk
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.groups import GroupChanges, GroupDesk
from gandy.desk.manifests import ManifestDesk
from gandy.desk.schedules import ManifestChanges
from gandy.model.owners import OneOwner, Operator
from gandy.store.dispatching import DispatchRequest, dispatch
from gandy.store.drivers.opening import migrate
from gandy.store.workers import WorkerRegistration, register_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gandy.model.run import ClaimedRun
    from tests.support.databases import DatabaseHome

CALLER: Final = "shop"
NEIGHBOUR: Final = "bakery"
WORKERS: Final = {CALLER: "0d5c1e77", NEIGHBOUR: "7fa20b13"}
#: Only the neighbour has a manifest, a group, a train and a contract of this name.
THEIRS: Final = "theirs_only"
TOKEN: Final = "an-operator-of-the-shop"
_UNLUCKY: Final = 13
_SOMEBODY: Final = Operator("somebody", "python")

Row = dict[str, Any]
Snapshot = dict[str, list[str]]


async def send(n: int, run: Run) -> int:
    run.log.info("sending %s", n)
    if n == _UNLUCKY:
        raise ValueError("unlucky")
    return n


async def theirs_only(n: int) -> int:
    return n


def make_app(name: str, url: str | None = None) -> Gandy:
    """Make an application; both declare the same, and the neighbour a little more."""
    worker = {"slots": 4, "poll_every": timedelta(milliseconds=50)}
    app = Gandy(name, url, web={"port": 0, "token": TOKEN}, worker=worker)
    app.train(max_retries=1)(send)
    app.group("etl", max_active_jobs=4)
    nightly = app.schedule("nightly", send, 1, every(hours=1), group="etl")
    nightly.then("after-nightly", send, 1)
    app.schedule("parked", send, _UNLUCKY, every(hours=1), max_retries=1)
    app.schedule("paused", send, 1, every(hours=1), group="etl")
    if name == NEIGHBOUR:
        app.train(theirs_only)
        app.schedule(THEIRS, send, 1, every(hours=1), group=THEIRS)
    return app


async def populate(app: Gandy) -> None:
    """Leave something in every state: queued, running, ended, parked, resolved, overridden."""
    async with app:
        await app.seed()
        await app.enqueue_many(send, [1, _UNLUCKY, _UNLUCKY])
        await app.trigger("parked")
        await app.work(asyncio.Event(), until_idle=True)
        await app.tick("manifest-manager")  # parks the one that used up its attempts
        await _leave_jobs(app)
        await _operate(app)
        if app.name == NEIGHBOUR:
            await app.trigger(THEIRS, delay=timedelta(days=1))


async def _leave_jobs(app: Gandy) -> None:
    trains = ["send"]
    worker = WorkerRegistration(
        id=WORKERS[app.name], owner=app.name, host="here", pid=7, version="1", slots=4, trains=trains
    )
    await app.database.run(register_worker(worker, 86_400.0))
    await app.enqueue(send, 2, group="etl")
    assert await _dispatch(app, worker.id)
    await app.enqueue_many(send, [3, 4], group="etl")
    pending = await _dispatch(app, None)
    desk = CancelDesk(app.database, _SOMEBODY, app.settings, owners=OneOwner(app.name))
    assert (await desk.jobs([pending[0].id])).cancelled
    await app.enqueue(send, 5, key="the same", delay=timedelta(days=1))
    await app.trigger("nightly", delay=timedelta(days=1))
    dropped = await app.enqueue(send, 6)
    assert (await desk.jobs([dropped.id])).cancelled
    await app.enqueue(send, 7, group="etl")


async def _dispatch(app: Gandy, worker_id: str | None) -> list[ClaimedRun]:
    request = DispatchRequest(
        owner=app.name,
        trains=["send"],
        limit=10,
        per_group=10,
        default_timeout_seconds=86_400.0,
        worker_id=worker_id,
    )
    return list((await app.database.run(dispatch(request))).runs)


async def _operate(app: Gandy) -> None:
    owners = OneOwner(app.name)
    manifests = ManifestDesk(app.database, _SOMEBODY, owners=owners, registry=app.registry)
    await manifests.set("nightly", ManifestChanges(priority=7))
    await manifests.disable("paused", "for a while")
    await GroupDesk(app.database, _SOMEBODY, owners=owners).set("etl", GroupChanges(max_active_jobs=3))
    letters = ids(app.settings.database.url, "dead_letter", "manifest_id IS NULL", owner=app.name)
    await DeadLetterDesk(app.database, _SOMEBODY, owners=owners).acknowledge(letters[:1], "seen")


def prepare(url: str) -> None:
    """Fill a fresh database."""
    migrate(url)
    asyncio.run(populate(make_app(NEIGHBOUR, url)))
    asyncio.run(populate(make_app(CALLER, url)))


@pytest.fixture
def shared_url(database_home: DatabaseHome) -> Iterator[str]:
    """A database that both applications have worked with, of each kind in turn."""
    with database_home.database(database_home.template("neighbours", prepare)) as url:
        yield url


@dataclass(frozen=True)
class Belongings:
    """What an owner has, by the name of the parameter that takes it."""

    jobs: list[int]
    letters: list[int]
    worker: str


def belongings(url: str, owner: str) -> Belongings:
    """Find everything of an owner that has an id."""
    jobs = {*ids(url, "work_queue", "1 = 1", owner=owner), *ids(url, "metadata", "1 = 1", owner=owner)}
    letters = ids(url, "dead_letter", "1 = 1", owner=owner)
    return Belongings(sorted(jobs), letters, WORKERS[owner])


def ids(url: str, table: str, condition: str, *, owner: str) -> list[int]:
    """Find ids of one owner."""
    query = f"SELECT id FROM {table} WHERE owner = ? AND {condition} ORDER BY id"  # noqa: S608 written here
    return [row["id"] for row in rows(url, query, owner)]


def rows(url: str, query: str, *parameters: object) -> list[Row]:
    """Read past Gandy."""
    with _reading(url) as read:
        return read(query, *parameters)


def write(url: str, command: str) -> None:
    """Write past Gandy."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as file, file:
            file.execute(command)
        return
    with psycopg.connect(url, options="-c search_path=gandy") as link:
        link.execute(command.encode())


@contextmanager
def _reading(url: str) -> Iterator[Callable[..., list[Row]]]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as file:
            file.row_factory = sqlite3.Row
            yield lambda query, *given: [dict(row) for row in file.execute(query, given)]
        return
    with psycopg.connect(url, options="-c search_path=gandy", row_factory=dict_row) as link:
        link.adapters.register_loader("date", TextLoader)  # a bucket may be infinite
        yield lambda query, *given: link.execute(query.replace("?", "%s").encode(), given).fetchall()


def snapshot(url: str) -> Snapshot:
    """Copy all tables, but for what the caller's own trail says of its deeds."""
    return _copied(url, lambda table, row: table != "audit" or row["owner"] != CALLER)


def belonging_to(owner: str, url: str) -> Snapshot:
    """Copy all rows of one owner; a log line is its run's."""
    runs = set(ids(url, "metadata", "1 = 1", owner=owner))
    return _copied(
        url,
        lambda table, row: row.get("owner") == owner or (table == "log" and row["metadata_id"] in runs),
    )


def changes_between(before: Snapshot, after: Snapshot) -> Mapping[str, set[str]]:
    """Name the rows that are not the same, by table."""
    return {
        table: set(before[table]) ^ set(after[table]) for table in before if before[table] != after[table]
    }


def _copied(url: str, is_wanted: Callable[[str, Row], bool]) -> Snapshot:
    with _reading(url) as read:
        tables = [row["name"] for row in read(_SQLITE if url.startswith("sqlite") else _POSTGRES)]
        found = {table: read(f"SELECT * FROM {table}") for table in tables}  # noqa: S608 of the catalogue
    return {
        table: sorted(json.dumps(row, default=str, sort_keys=True) for row in kept if is_wanted(table, row))
        for table, kept in found.items()
    }


_SQLITE: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY 1"
_POSTGRES: Final = (
    "SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'gandy'::regnamespace "
    "AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname"
)
