"""`gandy stats` and `gandy lifecycle growth`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Gandy

APP = """
from gandy import Gandy, every

app = Gandy("billing", "sqlite:///billing.db")


@app.train(max_retries=1)
async def send(number: int) -> int:
    if number > 5:
        raise ValueError(number)
    return number


app.schedule("nightly", send, 1, every(hours=1))
"""
MODULE = "billing_for_stats"


@pytest.mark.usefixtures("imports")
def test_stats_and_growth_are_shown_as_tables_and_as_json(gandy: Gandy, folder: Path) -> None:
    (folder / f"{MODULE}.py").write_text(APP, encoding="utf-8")
    at = ("--app", f"{MODULE}:app")
    assert gandy(*at, "migrate").exit_code == 0
    assert gandy(*at, "tick", "manifest-manager").exit_code == 0
    for number in ("2", "9"):
        assert gandy(*at, "queue", "enqueue", "send", "--input", number).exit_code == 0
    gandy(*at, "work", "--until-idle")
    assert gandy(*at, "tick", "lifecycle").exit_code == 0

    shown = gandy(*at, "stats", "--since", "1h")
    found = json.loads(gandy(*at, "stats", "--json").stdout)
    [nightly] = json.loads(gandy(*at, "stats", "--manifests", "--json").stdout)
    growth = gandy(*at, "lifecycle", "growth")
    grown = json.loads(gandy(*at, "lifecycle", "growth", "--json").stdout)

    assert "FAILURE RATE" in shown.stdout
    assert "33.3%" in shown.stdout
    assert [(each["train"], each["window"], each["runs"]) for each in found] == [
        ("send", 3_600.0, 3),
        ("send", 86_400.0, 3),
        ("send", 604_800.0, 3),
    ]
    assert (nightly["manifest"], nightly["runs"]) == ("nightly", 1)
    assert "ROWS IN 30 DAYS" in growth.stdout
    assert {"metadata", "run_rollup"} <= {each["table"] for each in grown}


def test_an_order_that_there_is_not_is_a_wrong_call(gandy: Gandy) -> None:
    assert gandy("stats", "--sort", "colour").exit_code == 2
    assert gandy("stats", "--since", "1s").exit_code == 2
