"""A role that may create objects beside Gandy's never has one of them called by Gandy's role."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.errors import DatabaseRefusedError
from gandy.store.drivers.migrate import load_migrations
from gandy.store.drivers.opening import migrate
from tests.app.shop import double, make_shop
from tests.roles.hostile import STRANGER, VICTIM, hostile
from tests.roles.journey import operate, serve
from tests.support.pgbouncer import running_pgbouncer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Gandy
    from tests.roles.journey import Operator
    from tests.support.postgres import PostgresServer, ThrowawayServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(180)]

DEFAULT = '"$user", public'
LAST = "public, pg_catalog"  #: what some set by hand: PostgreSQL's own names are looked up last
EVERY_PLACE = [(DEFAULT, "public"), (DEFAULT, VICTIM), (LAST, "public")]
HOUR = timedelta(hours=1)
PINNED = next(each.version for each in load_migrations("postgres") if each.name.endswith("pinned_names"))
READ_ALL = "SELECT gandy.now(); SELECT * FROM gandy.manifest_dispatch"
NOTE_VERSION = "INSERT INTO gandy.schema_version SELECT count(*) + 1, 1 FROM gandy.schema_version"
WRITE = """
INSERT INTO gandy.work_queue (owner, train_name, manifest_group_id, origin, due_at, scheduled_at)
VALUES ('x', 'y', 1, 'ad_hoc', '2030-01-01', '2030-01-01')
"""


@pytest.mark.parametrize("path", [DEFAULT, LAST])
def test_nothing_planted_is_called_by_services_pages_and_commands(
    postgres_server: PostgresServer, operator: Callable[[str], Operator], path: str
) -> None:
    with hostile(postgres_server, path) as judge:
        with judge.watching():
            migrate(judge.url)
        with judge.watching():
            asyncio.run(serve(judge.url, is_read=True))
        with judge.watching():
            operate(operator(judge.url))


@pytest.mark.parametrize(("path", "schema"), EVERY_PLACE)
def test_nothing_planted_is_called_by_a_printed_migration(
    postgres_server: PostgresServer, gandy: Gandy, path: str, schema: str
) -> None:
    with hostile(postgres_server, path, schema) as judge, judge.watching():
        printed = gandy("--database", judge.url, "migrate", "--sql").stdout
        with psycopg.connect(judge.url, autocommit=True) as person:
            person.execute(printed.encode())
        assert gandy("--database", judge.url, "migrate", "--check").exit_code == 0


@pytest.mark.parametrize(("path", "schema"), EVERY_PLACE)
def test_what_is_stored_calls_nothing_planted_whoever_uses_it(
    postgres_server: PostgresServer, path: str, schema: str
) -> None:
    with hostile(postgres_server, path, schema) as judge, judge.watching():
        migrate(judge.url)
        with psycopg.connect(judge.url, autocommit=True) as person:
            person.execute(READ_ALL)
            person.execute(WRITE)
            person.execute("SELECT gandy.add_history_day('2030-01-01')")


def test_a_callers_own_connection_calls_nothing_planted(postgres_server: PostgresServer) -> None:
    with hostile(postgres_server, DEFAULT) as judge:
        migrate(judge.url)
        app = make_shop(judge.url)
        with judge.watching(), psycopg.connect(judge.url) as caller:
            for number in range(2):
                app.sync.enqueue(double, number, group=f"new-{number}", connection=caller)
                app.sync.enqueue(double, 3, unique_for=HOUR, key="same", connection=caller)
            app.sync.enqueue_many(double, [1, 2], connection=caller)


def test_a_database_that_was_captured_before_is_found_out(postgres_server: PostgresServer) -> None:
    with hostile(postgres_server, DEFAULT) as judge:
        judge.run("SET search_path = pg_catalog")
        for migration in load_migrations("postgres"):
            if migration.version < PINNED:
                judge.run(migration.sql)
                judge.run(NOTE_VERSION)
        judge.run("ALTER TABLE gandy.worker ALTER slots SET DEFAULT public.length('x'::name)")

        with judge.watching(), pytest.raises(DatabaseRefusedError, match=r"worker uses function .*length"):
            migrate(judge.url)


@pytest.mark.parametrize(
    "trap", ["", "CREATE VIEW gandy.schema_version AS SELECT 9 AS version, public.md5('x'::name)"]
)
def test_a_schema_that_a_stranger_has_made_is_not_used(postgres_server: PostgresServer, trap: str) -> None:
    with hostile(postgres_server, DEFAULT) as judge:
        judge.run(f"SET ROLE {STRANGER}; CREATE SCHEMA gandy; {trap}; RESET ROLE")

        with judge.watching(), pytest.raises(DatabaseRefusedError, match=f"belongs to {STRANGER}"):
            migrate(judge.url)


def test_nothing_planted_is_called_behind_a_pooler(private_postgres_server: ThrowawayServer) -> None:
    with hostile(private_postgres_server, LAST) as judge:
        migrate(judge.url)
        with judge.watching(), running_pgbouncer(private_postgres_server) as pooler:
            through = pooler.url(judge.url)
            assert migrate(through).applied == ()
            asyncio.run(serve(through))
