"""What can go wrong at the start gives one clear message and an exit code, never a traceback."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.process import run_gandy

if TYPE_CHECKING:
    from subprocess import CompletedProcess

APP = """
from dataclasses import dataclass
from gandy import Gandy, Train

app = Gandy("billing")

@dataclass
class Month:
    name: str

@dataclass
class Report:
    text: str

def write(month: Month) -> Report:
    return Report(month.name)
"""

MISSING_TYPE = (
    APP
    + """
class Total: ...

def write_total(month: Month, total: TYPE) -> Report: ...

@app.register
class CloseMonth(Train[Month, Report]):
    route = (write_total,)
"""
)

DUPLICATE = (
    APP
    + """
@app.train
def close(month: Month) -> str:
    return month.name

@app.train(name="close")
def close_again(month: Month) -> str:
    return month.name
"""
)

NOT_PROVIDED = (
    APP
    + """
class Mailer: ...

@app.train
def send(month: Month, mailer: Mailer) -> None: ...
"""
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def clear(done: CompletedProcess[str], *words: str, code: int) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("gandy: ")
    assert len(done.stderr.splitlines()) <= 4
    for word in words:
        assert word in done.stderr


def test_a_route_with_a_missing_type(project: Path) -> None:
    (project / "billing.py").write_text(MISSING_TYPE.replace("TYPE", "int"))

    done = run_gandy(project, "--app", "billing:app", "trains", "list")

    clear(done, "CloseMonth", "write_total", "needs int", "available: Month", "billing.py:", code=1)


def test_a_route_with_a_missing_type_that_could_have_been_provided(project: Path) -> None:
    (project / "billing.py").write_text(MISSING_TYPE.replace("TYPE", "Total"))

    done = run_gandy(project, "--app", "billing:app", "work", "--until-idle")

    clear(done, "CloseMonth", "write_total", "needs Total", "available there: Month", "app.provide", code=1)


def test_two_trains_with_one_name(project: Path) -> None:
    (project / "billing.py").write_text(DUPLICATE)

    done = run_gandy(project, "--app", "billing:app", "trains", "list")

    clear(done, "two trains are named 'close'", "close_again", "rename one of them", code=1)


def test_a_value_that_nobody_provides(project: Path) -> None:
    (project / "billing.py").write_text(NOT_PROVIDED)

    done = run_gandy(project, "--app", "billing:app", "work", "--until-idle")

    clear(done, "send", "Mailer", "app.provide", code=1)


def test_a_malformed_settings_file(project: Path) -> None:
    (project / "gandy.toml").write_text("[worker\nslots = 3")

    clear(run_gandy(project, "runs", "list"), "gandy.toml", "is not TOML", "line 1", code=2)


def test_settings_that_do_not_exist_or_do_not_fit(project: Path) -> None:
    (project / "gandy.toml").write_text('[worker]\nslots = "many"\nslot = 3')

    clear(
        run_gandy(project, "runs", "list"), "2 problems", "worker.slots", "did you mean worker.slots", code=2
    )


def test_an_unreachable_database(project: Path) -> None:
    url = "postgresql://nobody:secret@127.0.0.1:1/nothing?connect_timeout=2"
    for command in (["migrate"], ["runs", "list"]):
        done = run_gandy(project, "--database", url, *command)

        clear(done, "cannot reach the database", "127.0.0.1", code=1)
        assert "secret" not in done.stderr


def test_a_folder_that_cannot_be_written(project: Path) -> None:
    folder = project / "locked"
    folder.mkdir(mode=0o555)
    # Permissions do not bind root, but nobody makes files in /proc.
    path = Path("/proc/gandy.db") if os.geteuid() == 0 else folder / "gandy.db"
    for command in (["migrate"], ["demo", "--seconds", "1"]):
        done = run_gandy(project, "--database", f"sqlite:///{path}", *command)

        assert "cannot reach the database" in done.stderr
        assert str(path) in done.stderr
        assert done.returncode == 1
        assert "Traceback" not in done.stderr


def test_code_too_old_for_the_database(project: Path) -> None:
    assert run_gandy(project, "migrate").returncode == 0
    with closing(sqlite3.connect(project / "gandy.db")) as connection, connection:
        connection.execute("INSERT INTO schema_version (version, compatible_from) VALUES (999, 999)")

    clear(run_gandy(project, "runs", "list"), "schema version 999", "upgrade gandy", code=1)


def test_a_database_without_tables(project: Path, postgres_url: str) -> None:
    done = run_gandy(project, "runs", "list", GANDY_DATABASE_URL=postgres_url)

    clear(done, "has no Gandy tables", "gandy migrate", code=1)


def test_an_application_that_is_not_there(project: Path) -> None:
    clear(run_gandy(project, "--app", "billing:app", "trains", "list"), "no module 'billing'", code=2)
    clear(run_gandy(project, "trains", "list"), "--app MODULE:NAME", code=2)


def test_a_run_that_is_not_there(project: Path) -> None:
    assert run_gandy(project, "migrate").returncode == 0

    clear(run_gandy(project, "--all-owners", "runs", "show", "7"), "no run 7", code=1)
    clear(run_gandy(project, "--all-owners", "runs", "logs", "7"), "no run 7", code=1)
