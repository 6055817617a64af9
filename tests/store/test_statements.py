from __future__ import annotations

import ast
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import psycopg
import pytest

from gandy.store.drivers.sqlite_values import StatementClock, statement_parts
from gandy.store.statements import Dialect, load_statements, parse_statements
from tests.architecture.source import PACKAGE, package_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
# A session of PostgreSQL has to be set up, and told the time in tests; SQLite's connection is made so. Only
# PostgreSQL has roles.
ONLY_POSTGRES = {
    "configure_session",
    "configure_transaction",
    "pin_names",
    "ask_listener",
    "listen",
    "set_clock",
    "lock_migrations",
    "schema_owner",
    "list_missing_privileges",
    "list_takeover",
}
# Days of history are dropped only where there are partitions; the rest of Gandy asks `supports_partitions`.
PARTITIONS = "partition.sql"
# SQLite dispatches in several statements, and is told which of them have nothing to do.
ONLY_SQLITE_BINDS = {"dispatch_entries": {"has_manifests", "has_letters", "has_keys"}}
PARAMETER = re.compile(r"%\((?P<name>\w+)\)s(?:::(?P<type>\w+(?:\[\])?))?")
# Commands that PostgreSQL prepares for nobody.
UTILITY = {"listen"}


def files_of(dialect: Dialect) -> Iterator[Path]:
    return (PACKAGE / "store" / "sql" / dialect).glob("*.sql")


def names_by_file(dialect: Dialect) -> dict[str, set[str]]:
    return {file.name: set(parse_statements(file.read_text(encoding="utf-8"))) for file in files_of(dialect)}


def test_both_dialects_have_the_same_statements_in_the_same_files() -> None:
    postgres, sqlite = names_by_file("postgres"), names_by_file("sqlite")

    assert sqlite.pop(PARTITIONS) <= postgres.pop(PARTITIONS)
    assert {name: names - ONLY_POSTGRES for name, names in postgres.items()} == sqlite


def test_both_dialects_bind_the_same_names() -> None:
    differing = {
        name: (sorted(ours), sorted(theirs))
        for name in load_statements("sqlite")
        if not (ours := _sqlite_names(name) - ONLY_SQLITE_BINDS.get(name, set()))
        <= (theirs := _postgres_names(name))
    }

    assert differing == {}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_says_why_it_is_there(dialect: Dialect) -> None:
    silent = [name for name, text in load_statements(dialect).items() if not text.startswith("-- ")]

    assert silent == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_is_used(dialect: Dialect) -> None:
    spoken = {
        node.value
        for file in package_files()
        for node in file.walk()
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }

    assert set(load_statements(dialect)) - spoken == set()


def test_every_statement_that_is_named_exists() -> None:
    named = {
        node.args[0].value
        for file in package_files()
        if file.room in {"store", "desk", "scheduler", "work", "upkeep", "loops", "app", "web", "cli"}
        for node in file.walk()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"statement", "batch"}
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }

    assert len(named) > 50
    assert named - set(load_statements("postgres")) == set()
    assert named - set(load_statements("sqlite")) - ONLY_POSTGRES <= names_by_file("postgres")[PARTITIONS]


def test_two_statements_of_one_name_are_found_out() -> None:
    text = "-- name: a\n-- why\nSELECT 1;\n\n-- name: b\n-- why\nSELECT 2;\n"

    assert parse_statements(text) == {"a": "-- why\nSELECT 1", "b": "-- why\nSELECT 2"}


def test_every_statement_prepares_on_its_database(migrated_url: str) -> None:
    refusals = _sqlite_refusals if migrated_url.startswith("sqlite") else _postgres_refusals

    assert refusals(migrated_url) == {}


def _postgres_refusals(url: str) -> dict[str, str]:
    refused = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for name, text in load_statements("postgres").items():
            if name not in UTILITY:
                try:
                    connection.execute(_prepared(name, text).encode())
                except psycopg.Error as error:
                    refused[name] = str(error)
    return refused


def _sqlite_refusals(url: str) -> dict[str, str]:
    refused = {}
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        StatementClock(lambda: datetime.now(UTC)).register(connection)
        for name in load_statements("sqlite"):
            for part in statement_parts(name):
                try:
                    connection.execute(f"EXPLAIN {part}", dict.fromkeys(_sqlite_names(name)))
                except sqlite3.Error as error:
                    refused[name] = str(error)
    return refused


def _prepared(name: str, text: str) -> str:
    """PREPARE with the types that the statement itself names; the server infers the rest."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        place = numbers.setdefault(found["name"], len(numbers) + 1)
        return f"${place}" + (f"::{found['type']}" if found["type"] else "")

    return f"PREPARE {name} AS {PARAMETER.sub(number, text).replace('%%', '%')}"


def _sqlite_names(name: str) -> set[str]:
    text = re.sub(r"--[^\n]*|'[^']*'", "", load_statements("sqlite")[name])
    return set(re.findall(r"(?<![:\w]):([a-z_]\w*)", text))


def _postgres_names(name: str) -> set[str]:
    return set(re.findall(r"%\((\w+)\)s", load_statements("postgres")[name]))
