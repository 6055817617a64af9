"""A database of the version before keeps its runs when a live run becomes its queue entry."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.errors import CodeTooOldError
from gandy.model.run import RunEnd, TrainState
from gandy.store.dispatching import claim_pending, dispatch
from gandy.store.drivers import migrate as migrations
from gandy.store.drivers.opening import migrate
from gandy.store.finishing import finish_runs
from gandy.store.queueing import trigger
from gandy.store.reports import load_logs
from gandy.store.runs import find_job
from tests.store.work import RULES, WORKER, ask
from tests.support.world import OWNERS, open_world

if TYPE_CHECKING:
    from gandy.store.drivers.migrate import Migration
    from gandy.store.statements import Dialect

LIVE_RUNS = next(
    each.version for each in migrations.load_migrations("sqlite") if each.name.endswith("_live_runs")
)
#: What outsiders may read of a run.
SHOWN = """id, owner, name, train_state, manifest_id, parent_id, due_at, attempt, CAST(input AS text),
    CAST(output AS text), created_at, start_time, end_time, failure_junction, failure_exception,
    failure_reason, stack_trace, cancellation_requested, cancellation_reason, worker_id"""
ENDED, FAILED, RETRY, ACTIVE, PENDING, LOCAL, READY, SKIPPED, OWN = range(1, 10)
ROWS = Path(__file__).with_name("live_runs.sql").read_text(encoding="utf-8")
VALUES = {
    "@at": "'2026-01-05T11:59:00.000000Z'",
    "@later": "'2026-01-05T12:04:00.000000Z'",
    "@worker": f"'{WORKER}'",
}


def execute(url: str, text: str) -> list[tuple[Any, ...]]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            return [row for part in text.split(";\n") for row in file.execute(part).fetchall()]
    options = "-c search_path=gandy -c timezone=UTC"
    with psycopg.connect(url, options=options, autocommit=True) as link:
        cursor = link.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def old_url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of the version before, with runs and entries of every state."""
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", _earlier(migrations.load_migrations))
        migrate(database_url)
    text = re.sub("@[a-z]+", lambda found: VALUES[found[0]], ROWS)
    if database_url.startswith("sqlite"):
        execute(database_url, re.sub(r"/\*.*?\*/|::[a-z]+", "", text, flags=re.DOTALL))
        execute(database_url, f"UPDATE sqlite_sequence SET seq = {OWN} WHERE name = 'work_queue'")  # noqa: S608
    else:
        execute(database_url, re.sub(r"/\*|\*/", "", text))
        execute(database_url, f"SELECT setval('gandy.attempt_id', {OWN})")
    return database_url


def _earlier(load: Any) -> Any:  # noqa: ANN401 a cached function
    def earlier(dialect: Dialect) -> tuple[Migration, ...]:
        return tuple(each for each in load(dialect) if each.version < LIVE_RUNS)

    return earlier


def test_every_run_is_shown_as_before(old_url: str) -> None:
    before = execute(old_url, f"SELECT {SHOWN} FROM metadata ORDER BY id")  # noqa: S608 written here

    migrate(old_url)

    after = execute(old_url, f"SELECT {SHOWN} FROM metadata ORDER BY id")  # noqa: S608 written here
    assert len(before) == 6
    assert after == before
    assert execute(old_url, "SELECT id, status FROM work_queue ORDER BY id") == [
        (RETRY, "queued"),
        (ACTIVE, "dispatched"),
        (PENDING, "dispatched"),
        (LOCAL, "dispatched"),
        (READY, "queued"),
        (SKIPPED, "skipped"),
    ]


async def test_live_runs_end_and_waiting_ones_begin_after_the_migration(old_url: str) -> None:
    migrate(old_url)
    world = await open_world(old_url)
    world.know_worker(WORKER)
    live = [
        RunEnd(
            id=run_id,
            train="MakeReport",
            worker_id=WORKER,
            fence=7,
            state=TrainState.COMPLETED,
            manifest_id=manifest_id,
        )
        for run_id, manifest_id in ((ACTIVE, world.manifest()["id"]), (LOCAL, None))
    ]
    stale = live[0]._replace(fence=6)

    assert (await world.database.run(finish_runs([stale], RULES))).refused == (ACTIVE,)
    assert set((await world.database.run(finish_runs(live, RULES))).finished) == {ACTIVE, LOCAL}
    begun = await world.database.run(claim_pending(ask(trains=["MakeReport"])))
    queued = await world.database.run(dispatch(ask(trains=["MakeReport"])))

    assert [run.id for run in begun.runs] == [PENDING]
    assert {(run.id, run.attempt, run.max_retries) for run in queued.runs} == {(RETRY, 2, 5), (READY, 1, 5)}
    assert world.manifest()["success_count"] == 1
    following = await world.database.read(find_job(FAILED, OWNERS))
    assert following is not None
    assert (following.id, following.state) == (RETRY, "in_progress")
    for run_id in (ENDED, ACTIVE):
        lines = await world.database.read(load_logs(run_id, OWNERS))
        assert [line.message for line in lines] == [f"line of {run_id}"]
    assert (await world.database.run(trigger("report", owner="shop"))).id > OWN, "an id is never given twice"
    await world.database.close()


def test_code_of_the_version_before_is_refused_afterwards(
    old_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(old_url)
    monkeypatch.setattr(migrations, "load_migrations", _earlier(migrations.load_migrations))

    with pytest.raises(CodeTooOldError):
        migrate(old_url)


def test_roles_keep_what_they_may_do(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", _earlier(migrations.load_migrations))
        migrate(postgres_url)
    roles = {"gandy_reader_of_runs": "SELECT", "gandy_writer_of_runs": "SELECT, INSERT, DELETE"}
    try:
        for role, privileges in roles.items():
            execute(postgres_url, f"CREATE ROLE {role}")
            execute(postgres_url, f"GRANT {privileges} ON gandy.metadata TO {role}")

        migrate(postgres_url)

        held = "SELECT has_table_privilege('{}', 'gandy.{}', '{}')"
        wanted = [(role, table, "SELECT") for role in roles for table in ("metadata", "history")]
        wanted += [("gandy_writer_of_runs", "history", verb) for verb in ("INSERT", "DELETE")]
        assert [each for each in wanted if execute(postgres_url, held.format(*each)) != [(True,)]] == []
        assert execute(postgres_url, held.format("gandy_reader_of_runs", "history", "DELETE")) == [(False,)]
    finally:
        for role in roles:
            execute(postgres_url, f"DROP OWNED BY {role}")
            execute(postgres_url, f"DROP ROLE {role}")
