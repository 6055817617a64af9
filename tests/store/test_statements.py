from __future__ import annotations

import ast
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import psycopg
import pytest

from gandy.store import statements
from gandy.store.drivers.sqlite_steps import statement_parts
from gandy.store.drivers.sqlite_values import StatementClock
from gandy.store.statements import Dialect, load_statements, parse_statements, translated
from tests.architecture.source import PACKAGE, package_files
from tests.support.statements import make_scratch_tables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
# A session of PostgreSQL has to be set up, and told the time in tests; SQLite's connection is made so. Only
# PostgreSQL has roles, and round trips that a claim in one statement saves.
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
    "claim_plain",
}
# Days of history are dropped only where there are partitions; the rest of Gandy asks `supports_partitions`.
PARTITIONS = "partition.sql"
PARAMETER = re.compile(r"%\((?P<name>\w+)\)s(?:::(?P<type>\w+(?:\[\])?))?")
# Commands that PostgreSQL prepares for nobody.
UTILITY = {"listen"}


class SqlFolders:
    """Folders of statements that the package must not have."""

    def __init__(self, root: Path) -> None:
        self._sql = root / "sql"
        for folder in ("common", *DIALECTS):
            (self._sql / folder).mkdir(parents=True)

    def write(self, folder: str, text: str, name: str = "some.sql") -> None:
        (self._sql / folder / name).write_text(text, encoding="utf-8")

    def load(self, dialect: Dialect) -> Mapping[str, str]:
        return load_statements.__wrapped__(dialect)


@pytest.fixture
def sql_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlFolders:
    monkeypatch.setattr(statements, "files", lambda _package: tmp_path)
    return SqlFolders(tmp_path)


def names_by_file(folder: str) -> dict[str, set[str]]:
    files = (PACKAGE / "store" / "sql" / folder).glob("*.sql")
    return {file.name: set(parse_statements(file.read_text(encoding="utf-8"))) for file in files}


def test_both_dialects_have_the_same_statements_in_the_same_files() -> None:
    postgres, sqlite = names_by_file("postgres"), names_by_file("sqlite")

    assert sqlite.pop(PARTITIONS) <= postgres.pop(PARTITIONS)
    assert {name: names - ONLY_POSTGRES for name, names in postgres.items()} == sqlite


def test_both_dialects_bind_the_same_names() -> None:
    differing = {
        name: (sorted(ours), sorted(theirs))
        for name in load_statements("sqlite")
        if not (ours := _sqlite_names(name)) <= (theirs := _postgres_names(name))
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


def test_a_file_is_split_at_its_names() -> None:
    text = "-- name: a\n-- why\nSELECT 1;\n\n-- name: b\n-- why\nSELECT 2;\n"

    assert parse_statements(text) == {"a": "-- why\nSELECT 1", "b": "-- why\nSELECT 2"}


def test_two_statements_of_one_name_are_found_out(sql_folders: SqlFolders) -> None:
    text = "-- name: a\n-- why\nSELECT 1;\n"

    with pytest.raises(ValueError, match="statement a is defined twice in one file"):
        parse_statements(text * 2)
    sql_folders.write("sqlite", text)
    sql_folders.write("sqlite", text, "other.sql")
    with pytest.raises(ValueError, match="statement a is defined twice in sql/sqlite"):
        sql_folders.load("sqlite")


def test_a_common_statement_is_spelled_as_each_dialect_does() -> None:
    text = "-- why: a\nSELECT gandy.now() FROM gandy.log l WHERE (:name::text IS NULL OR l.name = :name)"

    assert translated("a", text, "postgres") == (
        "-- why: a\nSELECT gandy.now() FROM gandy.log l WHERE (%(name)s::text IS NULL OR l.name = %(name)s)"
    )
    assert translated("a", text, "sqlite") == (
        "-- why: a\nSELECT gandy_now() FROM log l WHERE (:name IS NULL OR l.name = :name)"
    )


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("SELECT %(owner)s", "%"),
        ("SELECT 1 WHERE key LIKE 'letters%'", "%"),
        ("SELECT ?", "?"),
        ("SELECT $1", "$"),
        ("SELECT @owner", "@"),
        ("SELECT {owner}", "{"),
        ("SELECT :Owner", ":Owner"),
        ("SELECT 'at:noon'", ":noon'"),
        ("SELECT :ids::bigint[]", "["),
        ("SELECT value::text", "::text"),
        ("SELECT gandy_now()", "gandy_now"),
        ("SELECT gandy.later(1)", "gandy.later("),
    ],
)
def test_a_spelling_that_is_not_neutral_is_refused_at_load(
    sql_folders: SqlFolders, dialect: Dialect, text: str, foreign: str
) -> None:
    sql_folders.write("common", f"-- name: a\n-- why\n{text};\n")

    with pytest.raises(ValueError, match=f"statement a of sql/common has {re.escape(repr(foreign))}"):
        sql_folders.load(dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_statement_in_common_and_in_a_dialect_is_refused_by_its_name(
    sql_folders: SqlFolders, dialect: Dialect
) -> None:
    sql_folders.write("common", "-- name: a\n-- why\nSELECT 1;\n\n-- name: b\n-- why\nSELECT 2;\n")
    sql_folders.write(dialect, "-- name: b\n-- why\nSELECT 2;\n")

    with pytest.raises(ValueError, match=f"sql/common and sql/{dialect} both define b"):
        sql_folders.load(dialect)


def test_a_statement_that_is_equal_in_both_dialects_is_written_once() -> None:
    common = set().union(*names_by_file("common").values())
    mirrored = (load_statements("postgres").keys() & load_statements("sqlite").keys()) - common

    assert len(common) >= 50
    assert [name for name in sorted(mirrored) if _is_equal_in_both(name)] == []


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
            make_scratch_tables(connection, statement_parts(name))
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


def _is_equal_in_both(name: str) -> bool:
    neutral = re.sub(r"%\((\w+)\)s", r":\1", load_statements("postgres")[name])
    try:
        spelled = translated(name, neutral, "sqlite")
    except ValueError:
        return False
    return _bare(spelled) == _bare(load_statements("sqlite")[name])


def _bare(text: str) -> str:
    """The statement without comments and line ends."""
    return " ".join(re.sub(r"--[^\n]*", "", text).split())
