"""Contracts that an application declares, in Python and in its settings file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gandy import Gandy, every
from gandy.clock import ManualClock
from gandy.errors import (
    ContractInvalidError,
    DeclaredTooLateError,
    DuplicateDeclarationError,
)
from gandy.lifecycle import Table, expires, older_than
from gandy.testing import Harness
from tests.lifecycle.ground import NOW, Ground, ago

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS = Table("sessions", [expires("expires_at", safety="a visitor signs in again")])
WRITTEN = """
version = 1
[lifecycle.written]
every = "10m"
[[lifecycle.written.tables]]
name = "sessions"
rules = [{ expires = "expires_at" }]
"""


def make_sessions(url: str) -> Ground:
    ground = Ground(url)
    ground.run(
        "CREATE TABLE sessions (id {key}, expires_at {instant})",
        "CREATE INDEX by_expiry ON sessions (expires_at)",
    )
    ground.fill("sessions", [(1, ago(hours=1)), (2, ago(hours=-1))])
    return ground


def swept(ticked: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {report["scheduler"]: report["counts"] for report in ticked["contracts"]}


async def test_a_tick_keeps_what_is_declared_in_the_applications_own_database(migrated_url: str) -> None:
    ground = make_sessions(migrated_url)
    app = Gandy("shop", migrated_url)
    app.use_clock(ManualClock(NOW))
    app.lifecycle("statestore", every(minutes=5), tables=[SESSIONS])
    async with app:
        ticked = await app.tick("lifecycle")

    assert swept(ticked) == {"statestore": {"sessions": 1}}
    assert ticked["deleted"] == 0, "nothing of Gandy's own was old"
    assert ground.ids("sessions") == [2]


async def test_a_contract_may_name_another_database(migrated_url: str, sqlite_url: str) -> None:
    elsewhere = make_sessions(sqlite_url)
    app = Gandy("shop", migrated_url)
    app.use_clock(ManualClock(NOW))
    app.lifecycle("statestore", every(minutes=5), tables=[SESSIONS], database=sqlite_url)
    async with app:
        await app.tick("lifecycle")

    assert elsewhere.ids("sessions") == [2]


async def test_the_harness_moves_the_clock_of_contracts_too(tmp_path: Path) -> None:
    ground = make_sessions(f"sqlite:///{tmp_path / 'app.db'}")
    app = Gandy("shop")
    old = Table("sessions", [older_than("expires_at", keep_for="1d")])
    app.lifecycle("statestore", tables=[old], database=ground.url)
    async with Harness(app, now=NOW) as harness:
        await harness.tick("lifecycle")
        assert len(ground.ids("sessions")) == 2

        harness.clock.advance(every(days=1).every)
        await harness.tick("lifecycle")
        assert ground.ids("sessions") == [2]


@pytest.mark.parametrize("is_own_file", [False, True], ids=["gandy.toml", "a file of its own"])
def test_contracts_are_read_from_the_settings_file_or_the_one_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_own_file: bool
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = "[worker]\nslots = 5\n"
    if is_own_file:
        (tmp_path / "tables.toml").write_text(WRITTEN)
        (tmp_path / "gandy.toml").write_text(f'{settings}[lifecycle]\ncontract = "tables.toml"\n')
    else:
        (tmp_path / "gandy.toml").write_text(WRITTEN + settings)
    app = Gandy("shop")
    app.lifecycle("declared", every(minutes=5), tables=[SESSIONS], database="sqlite:///elsewhere.db")

    declared, written = app.contracts
    assert (declared.name, declared.target()) == ("declared", "sqlite:///elsewhere.db")
    assert (written.name, written.interval) == ("written", every(minutes=10).every)
    assert written.target() == app.settings.database.url


def test_one_name_is_one_contract_wherever_it_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "gandy.toml").write_text(WRITTEN)
    monkeypatch.chdir(tmp_path)
    app = Gandy("shop")
    app.lifecycle("written", tables=[SESSIONS])
    with pytest.raises(DuplicateDeclarationError, match="written"):
        app.lifecycle("written", tables=[SESSIONS])
    with pytest.raises(DuplicateDeclarationError, match="written"):
        assert app.contracts


def test_a_mistake_in_the_settings_file_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "gandy.toml").write_text(WRITTEN.replace("expires =", "expire ="))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ContractInvalidError, match=r"gandy\.toml: lifecycle\.written: table sessions"):
        assert Gandy("shop").contracts


async def test_declaring_a_contract_after_opening_is_refused(migrated_url: str) -> None:
    app = Gandy("shop", migrated_url)
    async with app:
        with pytest.raises(DeclaredTooLateError):
            app.lifecycle("late", tables=[SESSIONS])


def test_a_contract_without_tables_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ContractInvalidError, match="at least one table"):
        Gandy("shop").lifecycle("empty", tables=[])


async def test_the_result_of_a_tick_has_a_json_form(migrated_url: str) -> None:
    make_sessions(migrated_url)
    app = Gandy("shop", migrated_url)
    app.lifecycle("statestore", tables=[SESSIONS])
    async with app:
        ticked = await app.tick("lifecycle")

    assert json.loads(json.dumps(ticked, default=str))["contracts"][0]["scheduler"] == "statestore"
