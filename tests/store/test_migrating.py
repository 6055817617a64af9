from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, get_args

import psycopg
import pytest

from gandy.errors import (
    CodeTooOldError,
    DatabaseRefusedError,
    DatabaseUnreachableError,
    DatabaseUrlError,
    SchemaBehindError,
)
from gandy.settings import DatabaseSettings
from gandy.store.drivers import sqlite
from gandy.store.drivers.database import dialect_of, sqlite_path
from gandy.store.drivers.migrate import SchemaState, known_version, load_migrations, verify
from gandy.store.drivers.opening import migrate, open_database, schema_state
from gandy.store.statements import Dialect
from tests.store.work import run_statement

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import PostgresServer

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
KNOWN = known_version("postgres")


def test_a_fresh_database_has_nothing_and_needs_everything(database_url: str) -> None:
    state = schema_state(database_url)

    assert state == SchemaState(0, 0)
    assert [each.version for each in state.pending(dialect_of(database_url))] == list(range(1, KNOWN + 1))


def test_asking_how_far_a_database_has_come_writes_nothing(database_url: str) -> None:
    schema_state(database_url)

    assert schema_state(database_url) == SchemaState(0, 0)
    if dialect_of(database_url) == "sqlite":
        assert not sqlite_path(database_url).exists()


def test_a_migration_says_what_it_did_and_the_second_one_does_nothing(database_url: str) -> None:
    names = tuple(migration.name for migration in load_migrations(dialect_of(database_url)))

    first, second = migrate(database_url), migrate(database_url)

    assert (first.before, first.after, first.applied) == (0, KNOWN, names)
    assert (second.before, second.after, second.applied) == (KNOWN, KNOWN, ())
    assert schema_state(database_url).pending(dialect_of(database_url)) == ()


async def test_two_processes_that_migrate_at_once_do_it_once(database_url: str) -> None:
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
        results = await asyncio.gather(
            *(loop.run_in_executor(processes, migrate, database_url) for _ in range(2))
        )

    assert {result.after for result in results} == {KNOWN}
    assert sorted(len(result.applied) for result in results) == [0, KNOWN]


async def test_a_newer_schema_that_older_code_may_use_is_opened(migrated_url: str) -> None:
    _record(migrated_url, version=KNOWN + 1, compatible_from=KNOWN)

    database = open_database(DatabaseSettings(url=migrated_url))
    await database.open()
    assert await database.run(run_statement("ping"))
    await database.close()

    assert migrate(migrated_url).applied == ()


async def test_code_that_the_schema_has_left_behind_is_refused(migrated_url: str) -> None:
    _record(migrated_url, version=KNOWN + 2, compatible_from=KNOWN + 1)
    database = open_database(DatabaseSettings(url=migrated_url))

    with pytest.raises(CodeTooOldError) as refused:
        await database.open()
    await database.close()

    assert (refused.value.found, refused.value.compatible_from, refused.value.known) == (
        KNOWN + 2,
        KNOWN + 1,
        KNOWN,
    )
    with pytest.raises(CodeTooOldError):
        migrate(migrated_url)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_that_is_behind_the_code_is_refused(dialect: Dialect) -> None:
    with pytest.raises(SchemaBehindError, match="gandy migrate"):
        verify(SchemaState(0, 0), dialect)


def test_a_migration_that_fails_leaves_nothing_behind(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA gandy; CREATE TABLE gandy.dead_letter (id bigint)")

        with pytest.raises(DatabaseRefusedError, match="already exists"):
            migrate(url)

        assert schema_state(url) == SchemaState(0, 0)


def test_both_dialects_have_the_same_migrations() -> None:
    postgres, lite = load_migrations("postgres"), load_migrations("sqlite")

    assert [(each.version, each.name, each.compatible_from) for each in postgres] == [
        (each.version, each.name, each.compatible_from) for each in lite
    ]
    assert [each.version for each in postgres] == list(range(1, len(postgres) + 1))
    assert all(1 <= each.compatible_from <= each.version for each in postgres)


def test_both_dialects_have_the_same_columns(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("columns") / "gandy.db"
    migrate(f"sqlite:///{file}")
    with postgres_server.database() as url:
        migrate(url)
        ours = _postgres_columns(url)
    theirs = _sqlite_columns(file)
    # Partitions have a key, and the days and pieces that they cover; SQLite needs counters instead.
    ours = {
        table: names - {"bucket", "piece"}
        for table, names in ours.items()
        if table not in {"history_horizon", "history_piece"}
    }
    theirs.pop("sequence")

    assert theirs == ours


@pytest.mark.parametrize("url", ["mysql://localhost/x", "gandy.db", "sqlite://", "sqlite:///:memory:"])
def test_a_url_that_leads_to_no_database_of_ours_is_refused(url: str) -> None:
    with pytest.raises(DatabaseUrlError):
        migrate(url)


def test_a_server_that_does_not_answer_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreachableError):
        migrate(f"postgresql:///x?host={tmp_path}")


def test_a_file_that_is_no_database_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("dear diary, " * 500, encoding="utf-8")

    with pytest.raises(DatabaseUnreachableError):
        migrate(f"sqlite:///{tmp_path}/notes.db")


def _record(url: str, *, version: int, compatible_from: int) -> None:
    if dialect_of(url) == "sqlite":
        with closing(sqlite.connect(sqlite_path(url))) as connection:
            connection.execute(
                "INSERT INTO schema_version (version, compatible_from) VALUES (?, ?)",
                (version, compatible_from),
            )
        return
    with psycopg.connect(url, autocommit=True) as link:
        link.execute(
            "INSERT INTO gandy.schema_version (version, compatible_from) VALUES (%s, %s)",
            (version, compatible_from),
        )


def _postgres_columns(url: str) -> dict[str, set[str]]:
    with psycopg.connect(url) as link:
        rows = link.execute(
            """SELECT c.table_name, c.column_name FROM information_schema.columns c
               JOIN information_schema.tables t USING (table_schema, table_name)
               JOIN pg_class p ON p.relname = c.table_name AND NOT p.relispartition
               WHERE c.table_schema = 'gandy' AND t.table_type = 'BASE TABLE'
                 AND p.relnamespace = 'gandy'::regnamespace"""
        ).fetchall()
    return _by_table(rows)


def _sqlite_columns(file: Path) -> dict[str, set[str]]:
    with closing(sqlite.connect(file)) as connection:
        connection.row_factory = None
        rows = connection.execute(
            """SELECT t.name, c.name FROM sqlite_master t JOIN pragma_table_xinfo(t.name) c
               WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'"""
        ).fetchall()
    return _by_table(rows)


def _by_table(rows: list[tuple[str, str]]) -> dict[str, set[str]]:
    columns: dict[str, set[str]] = {}
    for table, column in rows:
        columns.setdefault(table, set()).add(column)
    return columns
