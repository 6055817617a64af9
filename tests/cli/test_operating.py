"""The commands of an operator on each database, and each of them once as a real process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gandy.store.drivers.opening import migrate
from tests.cli.process import run_gandy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import Gandy
    from tests.support.databases import DatabaseHome

APP = """
from gandy import Gandy, every
from datetime import timedelta

app = Gandy("billing")

@app.train(max_retries=1)
async def send(n: int) -> int:
    if n == 13:
        raise ValueError("unlucky")
    return n

app.schedule("nightly", send, 1, every(hours=1))
"""


class Shop:
    """An application on a database of its own, and the command line in its folder."""

    def __init__(self, gandy: Gandy, url: str) -> None:
        self._gandy = gandy
        self.variables = {"GANDY_APP": "billing:app", "GANDY_DATABASE_URL": url}

    def __call__(self, *arguments: str) -> Result:
        return self._gandy(*arguments, env=self.variables)

    def json(self, *arguments: str, code: int = 0) -> Any:  # noqa: ANN401 whatever the command prints
        ended = self(*arguments, "--json")
        assert ended.exit_code == code, ended.stderr
        return json.loads(ended.stdout)


@pytest.fixture
def shop(database_home: DatabaseHome, gandy: Gandy, folder: Path, imports: None) -> Iterator[Shop]:
    assert imports is None
    template = database_home.template("migrated", lambda url: (migrate(url), None)[1])
    (folder / "billing.py").write_text(APP)
    with database_home.database(template) as url:
        yield Shop(gandy, url)


def test_a_job_is_queued_parked_looked_at_and_run_again_with_another_input(shop: Shop) -> None:
    job = shop.json("queue", "enqueue", "send", "--input", "13", "--priority", "3")
    (entry,) = shop.json("queue", "list")
    assert (entry["id"], entry["priority"], entry["gate"]) == (job["id"], 3, "open")
    assert shop("work", "--until-idle").exit_code == 1

    (letter,) = shop.json("dead-letters", "list")
    shown = shop.json("dead-letters", "show", str(letter["id"]))
    assert (shown["input"], shown["run_id"], shown["status"]) == (13, job["id"], "awaiting_intervention")
    refused = shop("dead-letters", "requeue", str(letter["id"]), "--input", '"many"')
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "valid integer" in refused.stderr

    done = shop.json("dead-letters", "requeue", str(letter["id"]), "--input", "7")
    assert done["requeued"][0]["letter_id"] == letter["id"]
    second = shop("dead-letters", "requeue", str(letter["id"]))
    assert second.exit_code == 1
    assert "is already resolved" in second.stderr
    assert shop("work", "--until-idle").exit_code == 0
    assert shop.json("dead-letters", "list") == []


def test_all_letters_are_resolved_at_once_only_when_somebody_agrees(shop: Shop) -> None:
    for _ in range(2):
        shop("queue", "enqueue", "send", "--input", "13")
    shop("work", "--until-idle")

    asked = shop("dead-letters", "acknowledge", "--all", "--note", "known")
    assert asked.exit_code == 2
    assert "Acknowledge 2 dead letters?" in asked.stderr

    done = shop.json("dead-letters", "acknowledge", "--all", "--note", "known", "--yes")
    assert len(done["acknowledged"]) == 2
    assert shop.json("dead-letters", "requeue", "--all", "--yes")["requeued"] == []
    (first, _) = shop.json("dead-letters", "list", "--status", "acknowledged")
    assert shop.json("dead-letters", "show", str(first["id"]))["resolution_note"] == "known"


def test_an_entry_a_run_a_manifest_and_a_group_are_cancelled(shop: Shop) -> None:
    ids = [shop.json("queue", "enqueue", "send", "--input", "1", "--delay", "1h")["id"] for _ in range(3)]

    assert shop.json("queue", "cancel", str(ids[0]))["cancelled"] == [ids[0]]
    assert shop.json("runs", "cancel", str(ids[1]))["cancelled"] == [ids[1]]
    assert shop.json("runs", "cancel", str(ids[1]))["already_over"] == [ids[1]]
    assert shop.json("runs", "cancel", "777", code=1)["not_found"] == [777]
    assert shop("groups", "cancel", "default").exit_code == 2
    assert shop.json("groups", "cancel", "default", "--yes")["cancelled"] == [ids[2]]

    assert shop("sync").exit_code == 0
    triggered = shop.json("manifests", "trigger", "nightly")
    assert shop.json("manifests", "cancel", "nightly")["cancelled"] == [triggered["id"]]
    assert shop("manifests", "cancel", "nowhere").exit_code == 1


def test_what_is_over_is_run_again_and_names_the_run_that_it_repeats(shop: Shop) -> None:
    job = shop.json("queue", "enqueue", "send", "--input", "4")
    shop("work", "--until-idle")

    again = shop.json("runs", "rerun", str(job["id"]), "--input", "5")
    shop("work", "--until-idle")

    run = shop.json("runs", "show", str(again["id"]))
    assert (run["parent_id"], run["output"], run["state"]) == (job["id"], 5, "completed")
    missing = shop("runs", "rerun", "777")
    assert (missing.exit_code, "no run 777" in missing.stderr) == (1, True)


def test_workers_are_listed_and_one_that_is_gone_cannot_be_drained(shop: Shop) -> None:
    assert shop.json("workers", "list") == []
    shop("work", "--until-idle")

    (worker,) = shop.json("workers", "list")
    assert (worker["state"], worker["is_alive"], worker["busy"]) == ("stopped", False, 0)
    assert worker["trains"] == ["send"]
    drained = shop("workers", "drain", worker["id"])
    assert (drained.exit_code, "no running worker" in drained.stderr) == (1, True)


def test_the_doctor_says_that_nothing_runs_and_what_to_do(shop: Shop) -> None:
    report = shop.json("doctor", code=1)

    assert [finding["check"] for finding in report["findings"]] == ["workers"]
    text = shop("doctor")
    assert (text.exit_code, "gandy up" in text.stdout) == (1, True)
    assert "Checked: database, schema" in text.stderr


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose application has an entry that waits, a run that is over and a dead letter."""
    folder = tmp_path_factory.mktemp("office")
    (folder / ".git").mkdir()
    (folder / "billing.py").write_text(APP)
    (folder / "gandy.toml").write_text('app = "billing:app"\n')
    for number in ("1", "13", "13"):
        assert run_gandy(folder, "queue", "enqueue", "send", "--input", number).returncode == 0
    assert run_gandy(folder, "work", "--until-idle").returncode == 1
    assert run_gandy(folder, "queue", "enqueue", "send", "--input", "1", "--delay", "1h").returncode == 0
    return folder


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("queue", "list", "--json"), 0),
        (("dead-letters", "list", "--json"), 0),
        (("dead-letters", "show", "1", "--json"), 0),
        (("dead-letters", "requeue", "1", "--json"), 0),
        (("dead-letters", "acknowledge", "2", "--note", "seen", "--json"), 0),
        (("runs", "rerun", "1", "--json"), 0),
        (("runs", "cancel", "1", "--json"), 0),
        (("queue", "cancel", "4", "--json"), 0),
        (("groups", "cancel", "default", "--yes", "--json"), 0),
        (("workers", "list", "--json"), 0),
        (("doctor", "--json"), 1),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_every_command_works_as_a_process_and_prints_json_alone(
    office: Path, arguments: tuple[str, ...], code: int
) -> None:
    ended = run_gandy(office, *arguments)

    assert ended.returncode == code, ended.stderr
    assert json.loads(ended.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ("dead-letters", "requeue"),
        ("dead-letters", "requeue", "1", "--all"),
        ("dead-letters", "requeue", "1", "--train", "send"),
        ("dead-letters", "acknowledge", "1"),
        ("queue", "enqueue"),
        ("queue", "enqueue", "send", "--input", "{"),
        ("queue", "list", "--gate", "wide"),
        ("workers", "drain"),
    ],
)
def test_an_unclear_call_is_refused_before_anything_is_touched(
    gandy: Gandy, folder: Path, arguments: tuple[str, ...]
) -> None:
    result = gandy(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert not (folder / "gandy.db").exists()


def test_a_job_is_queued_only_through_an_application(gandy: Gandy) -> None:
    result = gandy("queue", "enqueue", "send", "--input", "1")

    assert result.exit_code == 2
    assert "--app" in result.stderr
