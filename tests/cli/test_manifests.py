from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Gandy

APP = """
from datetime import timedelta
from gandy import Gandy, cron, every

app = Gandy("shop", database="sqlite:///shop.db")

@app.train
async def sell(count: int) -> int:
    return count

extract = app.schedule("extract", sell, 1, every(hours=1), group="etl")
extract.then("load", sell, 2)
app.schedule("report", sell, 3, cron("0 3 * * *", timezone="Europe/Berlin"), variance=timedelta(minutes=5))
"""


@pytest.fixture
def shop(folder: Path, gandy: Gandy, imports: None) -> Gandy:  # noqa: ARG001 it forgets what is imported
    """An application whose manifests are seeded."""
    (folder / "shop_of_test.py").write_text(APP, encoding="utf-8")
    (folder / "gandy.toml").write_text('app = "shop_of_test:app"\n', encoding="utf-8")
    assert gandy("sync").exit_code == 0
    return gandy


def answer(gandy: Gandy, *arguments: str) -> object:
    result = gandy(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_sync_says_what_it_did_and_the_second_time_nothing(shop: Gandy) -> None:
    again = answer(shop, "sync", "--json")

    assert again == {"created": 0, "updated": 0, "unchanged": 3, "orphaned": 0, "refused": []}


def test_tick_seeds_runs_one_cycle_and_prints_its_result_as_json(shop: Gandy) -> None:
    ticked = answer(shop, "tick", "manifest-manager")

    assert isinstance(ticked, dict)
    assert (ticked["is_leader"], ticked["queued"], ticked["looked_at"]) == (True, 1, 1)


def test_tick_of_an_unknown_service_names_the_known_ones(shop: Gandy) -> None:
    result = shop("tick", "worker")

    assert result.exit_code == 2
    assert "manifest-manager" in result.stderr


def test_manifests_are_listed_shown_and_previewed(shop: Gandy) -> None:
    listed = answer(shop, "manifests", "list", "--prefix", "e", "--json")
    assert isinstance(listed, list)
    assert [row["external_id"] for row in listed] == ["extract"]
    previewed = answer(shop, "manifests", "preview", "report", "--count", "3", "--json")
    assert isinstance(previewed, list)
    assert len(previewed) == 3
    shown = answer(shop, "manifests", "show", "report", "--json")
    assert isinstance(shown, dict)
    assert (shown["schedule"], shown["input"]) == ("at 03:00 (cron 0 3 * * *, Europe/Berlin)", 3)


def test_what_is_set_is_in_force_until_it_is_reset(shop: Gandy) -> None:
    changed = answer(shop, "manifests", "set", "report", "--cron", "0 4 * * *", "--timeout", "2h", "--json")
    assert isinstance(changed, dict)
    assert (changed["schedule"], changed["timeout"]) == ("at 04:00 (cron 0 4 * * *, UTC)", 7200)

    shown = answer(shop, "manifests", "reset", "report", "--json")

    assert isinstance(shown, dict)
    assert shown["schedule"] == "at 03:00 (cron 0 3 * * *, Europe/Berlin)"


def test_words_are_typed_as_they_are_stored(shop: Gandy) -> None:
    changed = answer(shop, "manifests", "set", "report", "--misfire", "catch_up", "--json")
    assert isinstance(changed, dict)
    assert changed["misfire_policy"] == "catch_up"

    found = answer(shop, "manifests", "list", "--type", "cron", "--json")
    assert isinstance(found, list)
    assert "report" in [each["external_id"] for each in found]


def test_a_bad_schedule_is_refused_as_a_wrong_call(shop: Gandy) -> None:
    result = shop("manifests", "set", "report", "--cron", "0 0 30 2 *")

    assert result.exit_code == 2
    assert "0 0 30 2 *" in result.stderr


def test_explain_is_one_screen(shop: Gandy) -> None:
    shop("manifests", "disable", "report", "--reason", "the source is down")

    told = shop("manifests", "explain", "report")

    assert told.exit_code == 0
    assert "it is disabled: the source is down" in told.stdout
    assert "gandy manifests enable report" in told.stdout
    assert len(told.stdout.splitlines()) < 40


def test_explain_says_when_a_manifest_is_due_that_nothing_holds_back(shop: Gandy) -> None:
    due = json.loads(shop("manifests", "explain", "report", "--json").stdout)["next_instant"]

    told = shop("manifests", "explain", "report")

    assert f"  - nothing; it is due at {due[:10]} {due[11:19]}Z\n" in told.stdout


def test_a_text_without_its_own_quotes_is_refused_with_an_example(shop: Gandy) -> None:
    result = shop("manifests", "trigger", "report", "--input", "many")

    assert result.exit_code == 2
    assert "a text keeps its own quotes: '\"a text\"'" in result.stderr


def test_a_trigger_with_an_input_of_the_wrong_type_is_refused(shop: Gandy) -> None:
    result = shop("manifests", "trigger", "report", "--input", '"many"')

    assert result.exit_code != 0
    assert "input" in result.stderr


def test_a_second_trigger_says_that_it_was_waiting_already(shop: Gandy) -> None:
    first = answer(shop, "manifests", "trigger", "report", "--delay", "1h", "--json")
    again = shop("manifests", "trigger", "report", "--json")

    assert isinstance(first, dict)
    assert json.loads(again.stdout)["id"] == first["id"]
    assert "already queued" in again.stderr


def test_groups_are_set_and_triggered(shop: Gandy) -> None:
    changed = answer(shop, "groups", "set", "etl", "--max-active", "2", "--disable", "--json")
    assert isinstance(changed, dict)
    assert (changed["max_active_jobs"], changed["is_enabled"]) == (2, False)

    assert shop("groups", "trigger", "etl").exit_code == 2, "a bulk verb asks, and nobody is there"
    triggered = answer(shop, "groups", "trigger", "etl", "--yes", "--json")

    assert isinstance(triggered, list)
    assert [row["external_id"] for row in triggered] == ["extract"]


def test_what_the_code_declares_cannot_be_deleted_beside_it(shop: Gandy) -> None:
    result = shop("manifests", "delete", "report", "--yes")

    assert result.exit_code == 1
    assert "declared in the application's code" in result.stderr
