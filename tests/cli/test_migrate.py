from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers.opening import schema_state

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Gandy


def test_migrating_makes_the_tables_and_doing_it_again_changes_nothing(
    gandy: Gandy, database_url: str
) -> None:
    first = gandy("--database", database_url, "migrate", "--json")
    again = gandy("--database", database_url, "migrate", "--json")

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert json.loads(first.stdout)["applied"][0] == "0001_ground"
    assert json.loads(again.stdout)["applied"] == []
    assert schema_state(database_url).version == json.loads(again.stdout)["version"]


def test_a_check_only_says_what_is_missing(gandy: Gandy, database_url: str) -> None:
    missing = gandy("--database", database_url, "migrate", "--check")
    assert (missing.exit_code, schema_state(database_url).version) == (1, 0)
    assert "pending: 0001_ground" in missing.stderr

    gandy("--database", database_url, "migrate")
    up_to_date = gandy("--database", database_url, "migrate", "--check", "--json")
    assert up_to_date.exit_code == 0
    assert json.loads(up_to_date.stdout)["pending"] == []


def test_the_printed_sql_does_what_migrating_does(gandy: Gandy, database_url: str) -> None:
    printed = gandy("--database", database_url, "migrate", "--sql")
    assert (printed.exit_code, schema_state(database_url).version) == (0, 0)

    run_script(database_url, printed.stdout)

    assert gandy("--database", database_url, "migrate", "--check").exit_code == 0
    assert gandy("--database", database_url, "migrate", "--sql").stdout == ""


@pytest.mark.usefixtures("imports")
def test_the_database_is_the_one_that_the_application_names(gandy: Gandy, folder: Path) -> None:
    (folder / "billing.py").write_text(
        "from gandy import Gandy\napp = Gandy('billing', database='sqlite:///bills.db')\n"
    )

    assert gandy("--app", "billing:app", "migrate").exit_code == 0
    assert (folder / "bills.db").exists()


def run_script(url: str, script: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.create_function("gandy_now", 0, lambda: "2026-01-01T00:00:00.000000Z")
            connection.executescript(script)
        return
    with psycopg.connect(url, autocommit=True) as postgres:
        postgres.execute(script.encode())


def test_a_database_newer_than_this_code_is_refused(gandy: Gandy, sqlite_url: str) -> None:
    gandy("--database", sqlite_url, "migrate")
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("INSERT INTO schema_version (version, compatible_from) VALUES (999, 999)")

    for command in (["migrate"], ["migrate", "--check"], ["runs", "list"]):
        refused = gandy("--database", sqlite_url, *command)
        assert refused.exit_code == 1
        assert "upgrade gandy on this server" in refused.stderr
