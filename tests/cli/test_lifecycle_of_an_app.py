"""`gandy lifecycle` where an application is named: its contracts, its database, Gandy's own tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gandy.store.drivers.opening import migrate
from tests.lifecycle.ground import Ground, ago

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Gandy
    from tests.support.databases import DatabaseHome

APP = """
from datetime import timedelta

from gandy import DeleteOldRows, Gandy, OldRows, cron, every
from gandy.lifecycle import Table, expires

app = Gandy("billing")
app.lifecycle("statestore", every(minutes=5), tables=[Table("sessions", [expires("expires_at")])])
app.register(DeleteOldRows)
for name, table, is_on in (("old-events", "events", True), ("old-notes", "notes", False)):
    old = OldRows(table=table, column="at", keep_for=timedelta(days=90))
    app.schedule(name, DeleteOldRows, old, cron("0 * * * *"), enabled=is_on)
"""


@pytest.fixture
def ground(
    database_home: DatabaseHome, folder: Path, imports: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ground]:
    assert imports is None
    (folder / "billing.py").write_text(APP)
    template = database_home.template("migrated", lambda url: (migrate(url), None)[1])
    with database_home.database(template) as url:
        monkeypatch.setenv("GANDY_DATABASE_URL", url)
        ground = Ground(url)
        ground.run(
            "CREATE TABLE sessions (id {key}, expires_at {instant})",
            "CREATE INDEX by_expiry ON sessions (expires_at)",
            "CREATE TABLE notes (id {key})",
            "CREATE TABLE events (id {key}, at {instant})",
        )
        ground.fill("sessions", [(n, ago(days=n)) for n in range(1, 4)])
        yield ground


def audited(gandy: Gandy, *arguments: str) -> dict[str, dict[str, Any]]:
    ended = gandy(*arguments, "lifecycle", "audit", "--json")
    assert ended.exit_code == 0, ended.stderr
    return {row["table"].removeprefix("gandy."): row for row in json.loads(ended.stdout)}


def test_an_audit_shows_what_bounds_gandys_own_tables_beside_the_applications(
    gandy: Gandy, ground: Ground
) -> None:
    tables = audited(gandy, "--app", "billing:app")

    assert tables["sessions"]["scheduler"] == "statestore"
    assert tables["notes"]["bound"] == "unbounded"
    assert tables["history"]["scheduler"] == "gandy"
    assert "30m from their start" in tables["history"]["bound"]
    assert "TableMaintenanceTrain" in tables["history"]["bound"]
    assert [name for name, row in tables.items() if row["bound"] == "unbounded"] == ["notes"]
    assert ground.ids("sessions") == [1, 2, 3]


@pytest.mark.usefixtures("ground")
def test_an_audit_names_the_scheduled_deletion_that_bounds_a_table(gandy: Gandy) -> None:
    tables = audited(gandy, "--app", "billing:app")

    assert tables["events"]["scheduler"] == "billing"
    assert "90d" in tables["events"]["bound"]
    assert "DeleteOldRows, manifest old-events" in tables["events"]["bound"]
    assert tables["notes"]["bound"] == "unbounded", "its deletion is switched off"


def test_an_audit_of_a_database_alone_knows_gandys_tables_too(gandy: Gandy, ground: Ground) -> None:
    tables = audited(gandy, "--database", ground.url)

    assert tables["work_queue"]["scheduler"] == "gandy"
    assert tables["sessions"]["bound"] == "unbounded", "no contract was named"


def test_the_contracts_of_an_application_need_no_file(gandy: Gandy, ground: Ground) -> None:
    app = ("--app", "billing:app", "lifecycle")
    planned = json.loads(gandy(*app, "plan", "--json").stdout)
    assert [(rule["table"], rule["rows"]) for rule in planned] == [("sessions", 3)]
    assert gandy(*app, "check").exit_code == 0

    assert gandy(*app, "sweep", "--json").exit_code == 0
    assert ground.ids("sessions") == []


def test_without_a_contract_and_an_application_the_call_is_wrong(gandy: Gandy) -> None:
    for command in ("check", "audit"):
        ended = gandy("lifecycle", command)
        assert ended.exit_code == 2
        assert "--contract FILE" in ended.stderr


def test_a_tick_prints_what_the_contracts_did(gandy: Gandy, ground: Ground) -> None:
    ended = gandy("--app", "billing:app", "tick", "lifecycle")

    assert ended.exit_code == 0, ended.stderr
    (report,) = json.loads(ended.stdout)["contracts"]
    assert (report["scheduler"], report["counts"]) == ("statestore", {"sessions": 3})
    assert ground.ids("sessions") == []
