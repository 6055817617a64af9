"""Databases that cannot be read or written: one line and exit 1, for every command."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from gandy.cli.main import main
from gandy.clock import ManualClock
from gandy.errors import TargetFaultError
from gandy.lifecycle import Contract, Table, older_than, plan, sweep
from gandy.lifecycle.reports import plan as plan_report
from gandy.lifecycle.selection import foresight
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Select

    from gandy.lifecycle.database.instants import Form
    from gandy.lifecycle.selection.foresight import TakenRows
    from tests.lifecycle.ground import Ground

COMMANDS = ["check", "plan", "sweep", "audit", "quarantine"]
CONTRACT = """
version = 1
[lifecycle.app]
[[lifecycle.app.tables]]
name = "event"
rules = [{ older_than = "at", keep_for = "1h" }]
"""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    file = tmp_path / "lifecycle.toml"
    file.write_text(CONTRACT, encoding="utf-8")
    return file


@pytest.fixture
def locked(sqlite: Ground) -> Iterator[str]:
    sqlite.run("CREATE TABLE event (id {key}, at {instant})")
    with closing(sqlite.connect()) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield sqlite.url


def call(url: str, contract: Path, command: str) -> Result:
    options = ["--yes"] if command == "sweep" else ["--release"] if command == "release" else []
    name = "quarantine" if command == "release" else command
    arguments = ["lifecycle", name, "--contract", str(contract), "--target", url, *options]
    return CliRunner().invoke(main, arguments, prog_name="gandy")


def assert_one_line(result: Result, words: str) -> None:
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), result.exception
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("gandy: ")
    assert words in lines[0]


@pytest.mark.parametrize("command", [*COMMANDS, "release"])
def test_a_file_that_another_process_locks_is_told_in_one_line(
    locked: str, contract: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gandy.lifecycle.database.target._BUSY_TIMEOUT_SECONDS", 0.0)

    assert_one_line(call(locked, contract, command), "database is locked")


@pytest.mark.parametrize("journal", ["delete", "truncate", "persist", "memory"])
def test_python_is_told_of_an_open_reader_that_keeps_a_file_from_being_written(
    sqlite: Ground, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gandy.lifecycle.database.target._BUSY_TIMEOUT_SECONDS", 0.0)
    sqlite.run("CREATE TABLE event (id {key}, at {instant})", "CREATE INDEX by_age ON event (at)")
    sqlite.fill("event", [(1, ago(days=9))])
    contracts = [Contract("app", [Table("event", [older_than("at", keep_for="7d")])])]
    with closing(sqlite.connect()) as reader:
        reader.execute(f"PRAGMA journal_mode = {journal}")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM event").fetchall()

        with pytest.raises(TargetFaultError, match="database is locked"):
            sweep(contracts, sqlite.url)

    assert sqlite.ids("event") == [1]


@pytest.mark.parametrize("command", [*COMMANDS, "release"])
def test_a_file_that_is_no_database_is_told_in_one_line(tmp_path: Path, contract: Path, command: str) -> None:
    file = tmp_path / "garbage.db"
    file.write_text("this is no database " * 100, encoding="utf-8")

    assert_one_line(call(f"sqlite:///{file}", contract, command), "file is not a database")


@pytest.mark.parametrize("command", [*COMMANDS, "release"])
@pytest.mark.parametrize("url", ["sqlite:////nowhere/app.db", "postgresql://app@127.0.0.1:1/app"])
def test_a_database_that_is_not_there_is_told_in_one_line(url: str, contract: Path, command: str) -> None:
    assert_one_line(call(url, contract, command), "cannot reach the database")


def test_a_read_only_server_is_told_by_check_and_sweep(postgres: Ground, contract: Path) -> None:
    postgres.run("CREATE TABLE event (id {key}, at {instant})")
    name = postgres.rows("SELECT current_database()")[0][0]
    postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    checked = call(postgres.url, contract, "check")
    assert checked.exit_code == 1
    assert "a sweep could not write its state" in checked.stdout
    assert_one_line(call(postgres.url, contract, "sweep"), "a sweep could not write its state")
    audited = call(postgres.url, contract, "audit")
    assert audited.exit_code == 0
    assert "no history was kept: default_transaction_read_only is on" in audited.stderr


def test_a_read_only_file_is_told_by_check_and_sweep(
    sqlite: Ground, contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite.run("CREATE TABLE event (id {key}, at {instant})")
    monkeypatch.setattr("gandy.lifecycle.database.sqlite.os.access", lambda path, _: Path(path).is_dir())

    checked = call(sqlite.url, contract, "check")
    assert checked.exit_code == 1
    assert "a sweep could not write its state" in checked.stdout


@pytest.mark.parametrize("command", ["sweep", "release", "audit"])
def test_a_file_that_refuses_writes_is_told_in_one_line(
    sqlite: Ground, contract: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite.run("CREATE TABLE event (id {key}, at {instant})")
    call(sqlite.url, contract, "sweep")
    monkeypatch.setattr("gandy.lifecycle.database.target._ENFORCE_KEYS", "PRAGMA query_only = ON")

    assert_one_line(call(sqlite.url, contract, command), "attempt to write a readonly database")


def test_a_statement_timeout_is_told_without_a_traceback(postgres: Ground, contract: Path) -> None:
    postgres.run("CREATE TABLE event (id {key}, at {instant})")
    assert call(postgres.url, contract, "sweep").exit_code == 0
    url = f"{postgres.url}{'&' if '?' in postgres.url else '?'}options=-c%20statement_timeout%3D50"
    with closing(postgres.connect()) as holder:
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE event, gandy_lifecycle_lease, gandy_lifecycle_quarantine")

        for command in ("sweep", "quarantine", "release"):
            assert_one_line(call(url, contract, command), "statement timeout")
        for command in ("check", "plan"):
            told = call(url, contract, command)
            assert told.exit_code == 1
            assert isinstance(told.exception, SystemExit)
            assert "statement timeout" in told.output


def test_a_rule_that_cannot_be_counted_says_so_and_the_others_are_planned(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        ground.run(
            f"CREATE TABLE {name} (id {{key}}, at {{instant}})", f"CREATE INDEX {name}_at ON {name} (at)"
        )
        ground.fill(name, [(1, ago(days=9))])

    def count(taken: TakenRows, instant: str, form: Form) -> Select[Any]:
        if taken.table.name.name == "first":
            raise ZeroDivisionError("an error that no layer knows")
        return foresight.extent(taken, instant, form)

    monkeypatch.setattr(plan_report, "extent", count)
    tables = [Table(name, [older_than("at", keep_for="7d")]) for name in ("first", "second")]
    [first, second] = plan([Contract("app", tables)], ground.url, clock=ManualClock(NOW))

    assert (first.is_counted, second.is_counted, second.rows) == (False, True, 1)
    assert "ZeroDivisionError" in first.notes[-1]
