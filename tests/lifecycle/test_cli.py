"""A TOML file, a database URL and one command."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from gandy.cli.main import main
from tests.lifecycle.ground import Ground, ago
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

CONTRACT = """
version = 1
[lifecycle.app]
every = "1h"
[[lifecycle.app.tables]]
name = "event"
rules = [{ older_than = "at", keep_for = "1h" }]
[[lifecycle.app.tables]]
name = "lease"
rules = [{ expires = "expires_at" }]
"""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    file = tmp_path / "lifecycle.toml"
    file.write_text(CONTRACT, encoding="utf-8")
    return file


@pytest.fixture
def app(ground: Ground) -> Ground:
    ground.run(
        "CREATE TABLE event (id {key}, at {instant})",
        "CREATE INDEX by_age ON event (at)",
        "CREATE TABLE lease (id {key}, expires_at {instant})",
        "CREATE INDEX by_expiry ON lease (expires_at)",
    )
    ground.fill("event", [(n, ago(days=n)) for n in range(10)])
    ground.fill("lease", [(n, ago(days=n)) for n in range(10)])
    return ground


def call(app: Ground, contract: Path, command: str, *options: str) -> Result:
    arguments = ["lifecycle", command, "--contract", str(contract), "--target", app.url, *options]
    return CliRunner().invoke(main, arguments, prog_name="gandy")


def test_check_is_content_with_a_contract_that_fits(app: Ground, contract: Path) -> None:
    result = call(app, contract, "check")

    assert (result.exit_code, result.stdout) == (0, "")


def test_check_finds_what_does_not_fit(app: Ground, contract: Path) -> None:
    app.run("DROP TABLE lease")

    result = call(app, contract, "check", "--json")

    assert result.exit_code == 1
    [finding] = json.loads(result.stdout)
    assert (finding["table"], finding["severity"]) == ("lease", "wrong")


def test_plan_shows_what_would_go(app: Ground, contract: Path) -> None:
    result = call(app, contract, "plan", "--json")

    assert result.exit_code == 0
    assert [(rule["table"], rule["rows"], rule["batches"]) for rule in json.loads(result.stdout)] == [
        ("event", 10, 1),
        ("lease", 10, 1),
    ]
    assert "by_age" in call(app, contract, "plan").stdout
    assert len(app.ids("event")) == 10


def test_sweep_prints_a_json_result_where_there_is_no_terminal(app: Ground, contract: Path) -> None:
    result = call(app, contract, "sweep")

    assert result.exit_code == 0
    [report] = json.loads(result.stdout)
    assert report["counts"] == {"event": 10, "lease": 10}
    assert "app.lifecycle_pruned" in result.stderr


def test_sweep_of_one_table_leaves_the_others(app: Ground, contract: Path) -> None:
    assert call(app, contract, "sweep", "--table", "lease").exit_code == 0

    assert (len(app.ids("event")), app.ids("lease")) == (10, [])


def test_sweep_of_a_table_that_no_contract_names_is_a_wrong_call(app: Ground, contract: Path) -> None:
    result = call(app, contract, "sweep", "--table", "leases")

    assert result.exit_code == 2
    assert "event, lease" in result.stderr


def test_sweep_of_a_contract_that_does_not_fit_deletes_nothing(app: Ground, contract: Path) -> None:
    app.run("DROP TABLE lease")

    result = call(app, contract, "sweep")

    assert result.exit_code == 1
    assert "no such table" in result.stderr
    assert len(app.ids("event")) == 10


def test_sweep_without_a_terminal_needs_a_yes_where_a_person_would_be_asked(
    app: Ground, contract: Path
) -> None:
    app.fill("event", [(n, ago(days=1)) for n in range(100, 11_000)])

    held = call(app, contract, "sweep")
    left = len(app.ids("event"))
    agreed = call(app, contract, "sweep", "--yes")

    assert (held.exit_code, left) == (1, 10_910)
    assert "pass --yes" in held.stderr
    assert (agreed.exit_code, app.ids("event")) == (0, [])


def test_audit_needs_no_contract(app: Ground) -> None:
    arguments = ["lifecycle", "audit", "--target", app.url, "--json"]
    result = CliRunner().invoke(main, arguments, prog_name="gandy")

    assert result.exit_code == 0
    bounds = {table["table"]: table["bound"] for table in json.loads(result.stdout)}
    assert (bounds["event"], bounds["lease"]) == ("unbounded", "unbounded")


def test_quarantine_is_listed_and_released(app: Ground, contract: Path) -> None:
    listed = call(app, contract, "quarantine", "--json")
    call(app, contract, "sweep")
    released = call(app, contract, "quarantine", "--release", "--json")

    assert (json.loads(listed.stdout), json.loads(released.stdout)) == ([], {"released": 0})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep", "--target", "sqlite:///x.db"], "pass --contract FILE"),
        (["audit"], "pass --target URL"),
        (["check", "--contract", "nowhere.toml"], "No such file"),
        (["check", "--contract", "{contract}"], "no database is named"),
        (["check", "--contract", "{contract}", "--target", "mysql://h/d"], "not supported"),
    ],
)
def test_a_wrong_call_is_said_to_be_one(contract: Path, arguments: list[str], words: str) -> None:
    filled = [argument.format(contract=contract) for argument in arguments]
    result = CliRunner().invoke(main, ["lifecycle", *filled], prog_name="gandy")

    assert result.exit_code == 2
    assert words in result.stderr


def test_a_file_that_is_not_there_is_not_made(contract: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none.db"
    arguments = ["lifecycle", "plan", "--contract", str(contract), "--target", f"sqlite:///{missing}"]
    result = CliRunner().invoke(main, arguments, prog_name="gandy")

    assert (result.exit_code, missing.exists()) == (1, False)


def test_run_keeps_the_contract_until_it_is_told_to_stop(app: Ground, contract: Path) -> None:
    command = [sys.executable, "-m", "gandy", "lifecycle", "run", "--contract", str(contract)]
    process = subprocess.Popen([*command, "--target", app.url], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: app.ids("event") == app.ids("lease") == [], "the first tick is done")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "app.lifecycle_pruned" in said


def test_a_terminal_gets_bars_and_a_table(sqlite: Ground, contract: Path) -> None:
    sqlite.run(
        "CREATE TABLE event (id {key}, at {instant})", "CREATE TABLE lease (id {key}, expires_at {instant})"
    )
    sqlite.fill("event", [(n, ago(days=n)) for n in range(10)])
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gandy", "lifecycle", "sweep", "--contract", str(contract)]
    done = subprocess.run(
        [*command, "--target", sqlite.url], stdout=theirs, stderr=subprocess.DEVNULL, check=False
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)

    assert done.returncode == 0
    assert "10/10" in shown
    assert "deleted" in shown
