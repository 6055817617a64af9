"""Commands that remove what is old say so when the clock cannot be believed, and take a person's word."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Gandy

APP = """
from gandy import Gandy, every

app = Gandy("shop", database="sqlite:///shop.db")

@app.train
async def sell() -> None:
    return None

app.schedule("hourly", sell, every(hours=1))
"""
CONTRACT = """
version = 1
[lifecycle.visits]
[[lifecycle.visits.tables]]
name = "visits"
rules = [{ older_than = "at", keep_for = "7d" }]
"""
LONG_AGO = "2020-01-01T00:00:00+00:00"


@pytest.fixture
def shop(folder: Path, gandy: Gandy, imports: None) -> Gandy:  # noqa: ARG001 it forgets what is imported
    """An application that every service has served, and that was then left alone for years."""
    (folder / "shop_of_test.py").write_text(APP, encoding="utf-8")
    (folder / "gandy.toml").write_text('app = "shop_of_test:app"\n', encoding="utf-8")
    for service in ("manifest-manager", "metadata-cleanup", "lifecycle"):
        assert gandy("tick", service).exit_code == 0
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        mark = json.dumps({"believed": LONG_AGO, "highest": LONG_AGO})
        changed = database.execute("UPDATE service_state SET value = ? WHERE key = 'clock'", (mark,))
        assert changed.rowcount == 1
        database.commit()
    return gandy


@pytest.mark.parametrize("service", ["metadata-cleanup", "dead-letter-cleanup", "lifecycle"])
def test_a_tick_says_why_it_removes_nothing_and_takes_yes(shop: Gandy, service: str) -> None:
    refused = shop("tick", service)
    agreed = shop("tick", service, "--yes")
    again = shop("tick", service)

    assert refused.exit_code == 1
    assert "more than a day beyond 2020-01-01 00:00Z" in refused.stderr
    assert "--yes" in refused.stderr
    assert refused.stdout == ""
    assert (agreed.exit_code, again.exit_code) == (0, 0)


def test_services_that_remove_nothing_go_on(shop: Gandy) -> None:
    assert shop("tick", "manifest-manager").exit_code == 0
    assert shop("tick", "dispatcher").exit_code == 0


def test_a_sweep_says_why_it_removes_nothing_and_takes_yes(folder: Path, gandy: Gandy) -> None:
    (folder / "visits.toml").write_text(CONTRACT, encoding="utf-8")
    with closing(sqlite3.connect(folder / "app.db")) as database:
        database.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, at TEXT)")
        database.execute("CREATE INDEX by_at ON visits (at)")
    sweep = ("lifecycle", "sweep", "--contract", "visits.toml", "--target", "sqlite:///app.db")
    assert gandy(*sweep).exit_code == 0, "nothing was written here before"
    with closing(sqlite3.connect(folder / "app.db")) as database:
        database.execute("UPDATE gandy_lifecycle_lease SET expires_at = '2020-01-01T00:00:00.000000Z'")
        database.execute("INSERT INTO visits VALUES (1, '2020-01-01T00:00:00.000000Z')")
        database.commit()

    refused, agreed = gandy(*sweep), gandy(*sweep, "--yes")

    assert refused.exit_code == 1
    assert "pass --yes if the clock is right" in refused.stderr
    assert json.loads(refused.stdout)[0]["counts"] == {}
    assert agreed.exit_code == 0, agreed.stderr
    assert json.loads(agreed.stdout)[0]["counts"] == {"visits": 1}
