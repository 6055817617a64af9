"""A database of the version before keeps its runs and lines, and their tables, when days get pieces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.errors import CodeTooOldError
from gandy.store.dispatching import dispatch
from gandy.store.drivers import migrate as migrations
from gandy.store.drivers.opening import migrate
from gandy.store.finishing import finish_runs
from gandy.store.partitions import list_pieces
from gandy.store.reports import LogRow, keep_logs, load_logs
from tests.store.test_live_runs_migration import execute
from tests.store.work import RULES, ask, ended, queue
from tests.support.world import OWNERS, open_world

if TYPE_CHECKING:
    from gandy.store.drivers.migrate import Migration
    from gandy.store.statements import Dialect

PIECES = next(each.version for each in migrations.load_migrations("sqlite") if each.name.endswith("_pieces"))
RUNS, LINES = 600, 200
FILL = Path(__file__).with_name("pieces_migration.sql").read_text(encoding="utf-8")
FILES = r"""
SELECT relname, relfilenode FROM pg_class WHERE relname ~ '^(log|history)_(\d{8}|rowwise|live)$' ORDER BY 1
"""
INDEXES = r"""
SELECT c.relname, count(*) FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid
WHERE c.relname ~ '^log_(\d{8}|rowwise|live)$' GROUP BY 1 ORDER BY 1
"""
ALL_RUNS = (
    "SELECT id, bucket::text, owner, name, train_state, start_time, output::text FROM metadata ORDER BY id"
)
ALL_LINES = "SELECT id, bucket::text, metadata_id, message FROM log ORDER BY id"


def _earlier(load: Any) -> Any:  # noqa: ANN401 a cached function
    def earlier(dialect: Dialect) -> tuple[Migration, ...]:
        return tuple(each for each in load(dialect) if each.version < PIECES)

    return earlier


def migrate_to_the_version_before(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", _earlier(migrations.load_migrations))
        migrate(url)


@pytest.fixture
def old_url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    migrate_to_the_version_before(database_url, monkeypatch)
    return database_url


@pytest.fixture
def filled_url(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    migrate_to_the_version_before(postgres_url, monkeypatch)
    execute(postgres_url, FILL)
    return postgres_url


def test_every_run_and_line_stays_in_its_file(filled_url: str) -> None:
    before = [execute(filled_url, query) for query in (ALL_RUNS, ALL_LINES, FILES)]

    migrate(filled_url)

    assert [len(each) for each in before[:2]] == [RUNS, LINES + 1]
    assert [execute(filled_url, query) for query in (ALL_RUNS, ALL_LINES, FILES)] == before
    in_day = execute(
        filled_url, "SELECT DISTINCT tableoid::regclass::text FROM history WHERE bucket = current_date + 1"
    )
    assert in_day == [(f"history_{datetime.now(UTC) + timedelta(days=1):%Y%m%d}",)]


def test_indexes_of_the_partitions_are_kept_and_found(filled_url: str) -> None:
    before = execute(filled_url, INDEXES)

    migrate(filled_url)

    assert execute(filled_url, INDEXES) == before
    plan = execute(filled_url, "EXPLAIN SELECT * FROM log WHERE metadata_id = 1")
    assert not any("Seq Scan" in line and "log_live" not in line for (line,) in plan[:2])
    assert execute(filled_url, "SELECT count(*) FROM pg_class WHERE relname ~ 'before'") == [(0,)]


async def test_work_goes_on_and_a_day_of_before_gets_a_piece(old_url: str) -> None:
    migrate(old_url)
    world = await open_world(old_url, datetime.now(UTC))
    await queue(world, "1")
    (run,) = (await world.database.run(dispatch(ask()))).runs
    if world.database.supports_partitions:
        day = (world.clock.now + timedelta(days=7)).date()
        world.rows("SELECT add_history_piece(?::date, 1)", str(day))
        world.rows("INSERT INTO history_piece (day, piece) VALUES (?::date, 1) RETURNING day", str(day))
    line = LogRow(run.id, run.fence, world.clock.now, "info", "test", "a line")

    async with world.database.transaction() as transaction:
        result = await transaction.run(finish_runs([ended(run)], RULES))
        await transaction.run(keep_logs([line], result.finished))

    assert set(result.finished) == {run.id}
    assert [each.message for each in await world.database.read(load_logs(run.id, OWNERS))] == ["a line"]
    if world.database.supports_partitions:
        assert result.finished[run.id] == f"{day}/1"
        pieces = [each for each in await world.database.read(list_pieces()) if each.day == day]
        assert [(each.number, each.is_current) for each in pieces] == [(0, False), (1, True)]
    await world.database.close()


def test_code_of_the_version_before_is_refused_afterwards(
    old_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(old_url)
    monkeypatch.setattr(migrations, "load_migrations", _earlier(migrations.load_migrations))

    with pytest.raises(CodeTooOldError):
        migrate(old_url)


def test_a_detach_that_was_cut_short_is_finished(filled_url: str) -> None:
    today = f"{datetime.now(UTC):%Y%m%d}"
    execute(filled_url, f"ALTER TABLE log DETACH PARTITION log_{today}")
    with psycopg.connect(filled_url) as reader, psycopg.connect(filled_url, autocommit=True) as link:
        reader.execute("SELECT count(*) FROM gandy.history")
        link.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            link.execute(
                f"ALTER TABLE gandy.history DETACH PARTITION gandy.history_{today} CONCURRENTLY".encode()
            )
    assert execute(filled_url, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == [(1,)]

    migrate(filled_url)

    assert execute(filled_url, f"SELECT to_regclass('history_{today}'), to_regclass('log_{today}')") == [
        (None, f"log_{today}")
    ]
    assert execute(filled_url, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == [(0,)]


def test_roles_keep_what_they_may_do(filled_url: str) -> None:
    roles = {"gandy_reader_of_days": "SELECT", "gandy_writer_of_days": "SELECT, INSERT, DELETE"}
    try:
        for role, privileges in roles.items():
            execute(filled_url, f"CREATE ROLE {role}")
            for table in ("history", "log", "history_horizon"):
                execute(filled_url, f"GRANT {privileges} ON gandy.{table} TO {role}")
        execute(filled_url, "GRANT SELECT ON gandy.metadata TO gandy_reader_of_days")

        migrate(filled_url)

        held = "SELECT has_table_privilege('{}', 'gandy.{}', '{}')"
        tables = ("history", "log", "history_piece")
        wanted = [(role, table, "SELECT") for role in roles for table in tables]
        wanted += [("gandy_writer_of_days", table, verb) for table in tables for verb in ("INSERT", "DELETE")]
        wanted += [("gandy_reader_of_days", "metadata", "SELECT")]
        assert [each for each in wanted if execute(filled_url, held.format(*each)) != [(True,)]] == []
        assert execute(filled_url, held.format("gandy_reader_of_days", "history", "DELETE")) == [(False,)]
    finally:
        for role in roles:
            execute(filled_url, f"DROP OWNED BY {role}")
            execute(filled_url, f"DROP ROLE {role}")
