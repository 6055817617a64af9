"""A sweep uses the application's search path, and calls none of the functions that a stranger put there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.roles.hostile import hostile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Gandy
    from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(180)]

DEFAULT = '"$user", app, public'
TABLES = """
CREATE SCHEMA app;
CREATE TABLE app.outbox (id bigint PRIMARY KEY, status text NOT NULL, created_at timestamptz NOT NULL);
CREATE TABLE app.note (id bigint PRIMARY KEY, outbox_id bigint NOT NULL REFERENCES app.outbox, body text);
CREATE TABLE app.presence (
    id bigint PRIMARY KEY, tenant text NOT NULL, expires_at_ms bigint NOT NULL, seen int NOT NULL);
CREATE TABLE app.event (id bigint, created_at timestamptz NOT NULL) PARTITION BY RANGE (created_at);
CREATE TABLE app.event_old PARTITION OF app.event FOR VALUES FROM ('2020-01-01') TO ('2020-02-01');
CREATE TABLE app.event_new PARTITION OF app.event FOR VALUES FROM ('2020-02-01') TO ('2099-01-01');
CREATE INDEX ON app.outbox (created_at);
CREATE INDEX ON app.outbox (status, created_at);
CREATE INDEX ON app.note (outbox_id);
CREATE INDEX ON app.presence (expires_at_ms);
CREATE INDEX ON app.presence (tenant, seen);
INSERT INTO app.outbox SELECT n, CASE WHEN n < 4 THEN 'failed' ELSE 'sent' END, now() - interval '9 days'
FROM generate_series(1, 9) n;
INSERT INTO app.note SELECT n, n, 'x' FROM generate_series(1, 3) n;
INSERT INTO app.presence SELECT n, 't', extract(epoch FROM now())::bigint * 1000 - 99999999 + n * 30000000, n
FROM generate_series(1, 9) n;
INSERT INTO app.event VALUES (1, '2020-01-05'), (2, '2020-03-01');
"""
CONTRACT = """
version = 1
[lifecycle.app]
every = "1h"
[[lifecycle.app.tables]]
name = "outbox"
children = { "note.outbox_id" = "delete_first" }
rules = [
  { terminal = "status", states = ["failed"], at = "created_at", keep_for = "7d" },
  { older_than = "created_at", keep_for = "8d", lost_by_design = "replay history" },
]
[[lifecycle.app.tables]]
name = "presence"
rules = [
  { expires = "expires_at_ms", unit = "ms", safety = "derived" },
  { cap = 2, per = ["tenant"], order_by = "seen" },
]
[[lifecycle.app.tables]]
name = "event"
rules = [{ drop_partition = "created_at", keep_for = "90d", lost_by_design = "events" }]
"""


@pytest.fixture(autouse=True)
def contract(folder: Path) -> None:
    (folder / "contract.toml").write_text(CONTRACT, encoding="utf-8")


def test_nothing_planted_is_called(postgres_server: PostgresServer, gandy: Gandy) -> None:
    with hostile(postgres_server, DEFAULT) as judge:
        judge.run(TABLES)
        for verb in (
            ["audit"], ["quarantine"], ["check"], ["plan"], ["sweep", "--yes"], ["sweep", "--yes"], ["audit"],
        ):  # fmt: skip
            with judge.watching():
                ended = gandy("lifecycle", *verb, "--contract", "contract.toml", "--target", judge.url)
            assert ended.exit_code == 0, (verb, ended.stdout, ended.stderr)
        left = judge.run("SELECT (SELECT count(*) FROM app.outbox), (SELECT count(*) FROM app.presence)")
        assert left == [(0, 2)]


@pytest.mark.parametrize("path", ["public, pg_catalog", 'app, "pg_catalog"', "app, PG_Catalog, public"])
def test_a_path_that_looks_elsewhere_first_is_refused_before_anything_is_called(
    postgres_server: PostgresServer, gandy: Gandy, path: str
) -> None:
    with hostile(postgres_server, path) as judge:
        judge.run(TABLES)
        with judge.watching():
            for verb in (["check"], ["plan"], ["sweep", "--yes"], ["audit"], ["quarantine"]):
                ended = gandy("lifecycle", *verb, "--contract", "contract.toml", "--target", judge.url)
                assert ended.exit_code == 1, (verb, ended.stdout, ended.stderr)
                assert "Remove pg_catalog from it" in ended.stderr
