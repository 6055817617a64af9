"""Manifests made from outside: by the command line, by REST and by Python, by one set of rules."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from gandy import Days, every
from gandy.cli.output import to_json
from gandy.desk.audit import read_trail
from gandy.model.manifest import MANIFEST_OPTIONS
from gandy.model.owners import OneOwner
from tests.doors.calls import client_of
from tests.doors.neighbours import CALLER, belonging_to, changes_between, make_app, rows, send
from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Gandy as Command

__all__ = ["migrated_url"]

APP: Final = """
from tests.doors.neighbours import make_app

app = make_app({name!r}, {url!r})
"""
ADD: Final = ("manifests", "add")
#: An option of a manifest at each door: on the command line, in REST and in Python.
OPTIONS: Final[dict[str, tuple[tuple[str, ...], Any, Any]]] = {
    "group": (("--group", "etl"), "etl", "etl"),
    "priority": (("--priority", "7"), 7, 7),
    "max_retries": (("--max-retries", "5"), 5, 5),
    "retry": (("--no-retry",), False, False),
    "retry_delay": (("--retry-delay", "2m"), 120, timedelta(minutes=2)),
    "timeout": (("--timeout", "90s"), 90, timedelta(seconds=90)),
    "enabled": (("--no-enabled",), False, False),
    "variance": (("--variance", "5s"), 5, timedelta(seconds=5)),
    "exclude": (("--exclude", '[{"days": ["sun"]}]'), [{"days": ["sun"]}], Days.on("sun")),
    "misfire": (("--misfire", "do_nothing"), "do_nothing", "do_nothing"),
    "misfire_threshold": (("--misfire-threshold", "3m"), 180, timedelta(minutes=3)),
    "keep_for": (("--keep-for", "3d"), 259_200, timedelta(days=3)),
    "keep_last": (("--keep-last", "9"), 9, 9),
}
#: What is refused by every door: arguments after the id and the train, the body, and a word of the message.
REFUSED: Final[dict[str, tuple[tuple[str, ...], dict[str, Any], str]]] = {
    "a wrong input": (("--input", '"one"'), {"input": "one"}, "input of train send"),
    "no input": ((), {}, "needs an input"),
    "two schedules": (
        ("--input", "1", "--cron", "@daily", "--every", "5m"),
        {"input": 1, "cron": "@daily", "every": 300},
        "exclude each other",
    ),
    "an instant and a rate": (
        ("--input", "1", "--at", "2030-01-01T00:00:00Z", "--every", "5m"),
        {"input": 1, "at": "2030-01-01T00:00:00Z", "every": 300},
        "exclude each other",
    ),
    "a schedule and a parent": (
        ("--input", "1", "--every", "5m", "--after", "nightly"),
        {"input": 1, "every": 300, "after": "nightly"},
        "both a schedule and a parent",
    ),
    "dormant alone": (("--input", "1", "--dormant"), {"input": 1, "dormant": True}, "needs a parent"),
    "an unknown parent": (("--input", "1", "--after", "no"), {"input": 1, "after": "no"}, "does not exist"),
    "one of several parents is unknown": (
        ("--input", "1", "--after", "nightly", "--after", "no"),
        {"input": 1, "after": ["nightly", "no"]},
        "does not exist",
    ),
    "a parent twice": (
        ("--input", "1", "--after", "nightly", "--after", "nightly"),
        {"input": 1, "after": ["nightly", "nightly"]},
        "name each one once",
    ),
    "after itself": (("--input", "1", "--after", "made"), {"input": 1, "after": "made"}, "made -> made"),
    "dormant under two": (
        ("--input", "1", "--after", "nightly", "--after", "parked", "--dormant"),
        {"input": 1, "after": ["nightly", "parked"], "dormant": True},
        "pass one after",
    ),
    "dormant on an end": (
        ("--input", "1", "--after", "nightly", "--on", "end", "--dormant"),
        {"input": 1, "after": "nightly", "on": "end", "dormant": True},
        "leave out on or dormant",
    ),
    "dormant with an output": (
        ("--after", "nightly", "--pass-output", "--dormant"),
        {"after": "nightly", "pass_output": True, "dormant": True},
        "leave out pass_output or dormant",
    ),
    "an end without a parent": (("--input", "1", "--on", "end"), {"input": 1, "on": "end"}, "needs a parent"),
    "an output without a parent": (("--pass-output",), {"pass_output": True}, "needs a parent"),
    "the output of two": (
        ("--after", "nightly", "--after", "parked", "--pass-output"),
        {"after": ["nightly", "parked"], "pass_output": True},
        "needs one parent, not 2",
    ),
    "the output of a failure": (
        ("--after", "nightly", "--on", "failure", "--pass-output"),
        {"after": "nightly", "on": "failure", "pass_output": True},
        "only a success has an output",
    ),
    "an output and an input": (
        ("--input", "1", "--after", "nightly", "--pass-output"),
        {"input": 1, "after": "nightly", "pass_output": True},
        "leave out the input",
    ),
    "a bad expression": (("--input", "1", "--cron", "@reboot"), {"input": 1, "cron": "@reboot"}, "cron"),
    "a zone alone": (("--input", "1", "--timezone", "UTC"), {"input": 1, "timezone": "UTC"}, "timezone"),
    "nothing would run": (
        ("--input", "1", "--cron", "0 3 * * sun", "--exclude", '[{"days": ["sun"]}]'),
        {"input": 1, "cron": "0 3 * * sun", "exclude": [{"days": ["sun"]}]},
        "nothing would ever run",
    ),
}


@pytest.fixture
def market(folder: Path, gandy: Command, imports: None, migrated_url: str) -> Command:
    """The command line with an application whose declarations are seeded."""
    assert imports is None
    (folder / "market.py").write_text(APP.format(name=CALLER, url=migrated_url))
    (folder / "gandy.toml").write_text('app = "market:app"\n')
    assert gandy("sync").exit_code == 0
    return gandy


def test_the_options_of_this_test_are_those_of_the_table() -> None:
    assert list(OPTIONS) == [option.keyword for option in MANIFEST_OPTIONS]


def test_an_option_means_the_same_at_every_door(market: Command, migrated_url: str) -> None:
    rest = asyncio.run(
        by_rest(
            migrated_url,
            [
                {"external_id": f"rest-{keyword}", "input": 1, "every": 300, keyword: sent}
                for keyword, (_, sent, _) in OPTIONS.items()
            ],
        )
    )
    python = asyncio.run(by_python(migrated_url))
    for (keyword, (arguments, _, _)), answer in zip(OPTIONS.items(), rest, strict=True):
        made = market(*ADD, f"cli-{keyword}", "send", "--input", "1", "--every", "5m", *arguments, "--json")
        assert made.exit_code == 0, made.stderr
        first, *others = [alike(each) for each in (json.loads(made.stdout), answer[1], *python[keyword])]
        assert first["origin"] == "runtime"
        assert others == [first] * len(others), keyword


async def by_rest(url: str, bodies: list[dict[str, Any]]) -> list[tuple[int, Any]]:
    async with make_app(CALLER, url) as app, client_of(app) as client:
        answers = [await client.post("/api/v1/manifests", json={"train": "send", **body}) for body in bodies]
        return [(answer.status_code, answer.json()) for answer in answers]


async def by_python(url: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    async with make_app(CALLER, url) as app:
        for keyword, (_, _, value) in OPTIONS.items():
            options: Any = {keyword: value}
            verb = await app.manifests.add(f"verb-{keyword}", "send", every(minutes=5), input=1, **options)
            await app.add_schedule(f"call-{keyword}", send, 1, every(minutes=5), **options)
            call = await app.manifests.show(f"call-{keyword}")
            found[keyword] = [json.loads(to_json(each)) for each in (verb, call)]
    return found


def alike(detail: dict[str, Any]) -> dict[str, Any]:
    """Leave out what differs between two manifests made in the same way."""
    unlike = {"external_id", "next_scheduled_run"}
    return {name: value for name, value in detail.items() if name not in unlike}


def test_what_one_door_refuses_all_refuse_with_the_same_words(market: Command, migrated_url: str) -> None:
    before = belonging_to(CALLER, migrated_url)
    bodies = [{"external_id": "made", **body} for _, body, _ in REFUSED.values()]
    answers = asyncio.run(by_rest(migrated_url, bodies))
    for (case, (arguments, _, word)), (status, answer) in zip(REFUSED.items(), answers, strict=True):
        refused = market(*ADD, "made", "send", *arguments)
        assert refused.exit_code in {1, 2}, case
        assert word in refused.stderr, case
        assert status in {400, 422}, case
        assert word in answer["detail"], case

    assert changes_between(before, belonging_to(CALLER, migrated_url)) == {}


SCHEDULES: Final[dict[tuple[str, ...], str]] = {
    ("--cron", "0 3 * * *", "--timezone", "Europe/Berlin"): "at 03:00 (cron 0 3 * * *, Europe/Berlin)",
    ("--every", "90m"): "every 1h30m",
    ("--at", "2090-01-01T00:00:00Z"): "once",
    ("--after", "nightly"): "after nightly",
    ("--after", "nightly", "--dormant"): "when nightly activates it",
    ("--after", "nightly", "--after", "parked"): "after nightly and parked",
    ("--after", "nightly", "--on", "failure"): "after a failure of nightly",
    ("--after", "nightly", "--after", "parked", "--on", "end"): "after any end of nightly and parked",
    (): "only when triggered",
}


def test_every_kind_of_schedule_can_be_made(market: Command) -> None:
    for number, (arguments, schedule) in enumerate(SCHEDULES.items()):
        made = market(*ADD, f"made-{number}", "send", "--input", "1", *arguments, "--json")

        assert made.exit_code == 0, made.stderr
        assert json.loads(made.stdout)["schedule"] == schedule


def test_what_was_made_stays_when_the_application_is_seeded_and_goes_when_removed(
    market: Command, migrated_url: str
) -> None:
    assert market(*ADD, "made", "send", "--input", "1", "--every", "5m").exit_code == 0
    assert market("sync").exit_code == 0
    kept = json.loads(market("manifests", "show", "made", "--json").stdout)
    assert (kept["origin"], kept["state"], kept["orphaned_at"]) == ("runtime", "enabled", None)

    changed = json.loads(market(*ADD, "made", "send", "--input", "2", "--every", "6m", "--json").stdout)
    assert (changed["input"], changed["schedule"]) == (2, "every 6m")
    assert market("manifests", "remove", "made").exit_code == 2, "it asks first"
    assert market("manifests", "remove", "made", "--yes").exit_code == 0
    assert market("manifests", "show", "made").exit_code == 1
    assert trail_of(migrated_url) == [
        ("add manifest", "made", {"train": "send", "is_new": True}),
        ("add manifest", "made", {"train": "send", "is_new": False}),
        ("delete manifest", "made", {"cancelled_entries": 0}),
    ]


def trail_of(url: str) -> list[tuple[str, str, Any]]:
    async def read() -> list[tuple[str, str, Any]]:
        async with make_app(CALLER, url) as app:
            trail = await read_trail(app.database, OneOwner(CALLER))
            return [(each.action, each.subject, each.detail) for each in trail[::-1]]

    return asyncio.run(read())


def test_rest_removes_by_the_method_delete(market: Command, migrated_url: str) -> None:
    assert market(*ADD, "made/here", "send", "--input", "1").exit_code == 0

    async def remove(external_id: str) -> tuple[int, Any]:
        async with make_app(CALLER, migrated_url) as app, client_of(app) as client:
            answer = await client.delete(f"/api/v1/manifests/{external_id}")
            return answer.status_code, answer.json()

    assert asyncio.run(remove("made/here")) == (200, {"is_gone": True, "cancelled_entries": 0})
    assert asyncio.run(remove("made/here"))[0] == 404
    assert asyncio.run(remove("nightly"))[0] == 409, "it is declared"


def test_a_declared_manifest_is_neither_changed_nor_removed(market: Command, migrated_url: str) -> None:
    before = belonging_to(CALLER, migrated_url)
    for arguments in ((*ADD, "nightly", "send", "--input", "1"), ("manifests", "remove", "nightly", "--yes")):
        refused = market(*arguments)
        assert refused.exit_code == 1
        assert "declared in the application's code" in refused.stderr
    assert changes_between(before, belonging_to(CALLER, migrated_url)) == {}


def test_a_manifest_shows_what_it_follows_and_a_preview_says_so(market: Command) -> None:
    both = ("--after", "nightly", "--after", "parked", "--on", "end")
    made = json.loads(market(*ADD, "made", "send", "--input", "1", *both, "--json").stdout)
    assert (made["after"], made["on"], made["pass_output"]) == (["nightly", "parked"], "end", False)

    listed = json.loads(market("manifests", "list", "--prefix", "made", "--json").stdout)
    preview = market("manifests", "preview", "made")
    explained = json.loads(market("manifests", "explain", "made", "--json").stdout)

    assert [each["schedule"] for each in listed] == ["after any end of nightly and parked"]
    assert "it runs after any end of nightly and parked" in preview.stderr
    assert "nightly has not ended since it was last queued" in explained["holding_back"]


def test_without_an_application_any_json_is_accepted_and_that_is_said(
    market: Command, migrated_url: str, folder: Path
) -> None:
    (folder / "gandy.toml").unlink()
    given = ("--database", migrated_url, "--owner", CALLER)
    made = market(*given, *ADD, "made", "train_of_tomorrow", "--input", '{"any": ["thing"]}', "--json")

    assert made.exit_code == 0, made.stderr
    assert "train_of_tomorrow is not known here" in made.stderr
    assert market(*given, *ADD, "made", "send", "--input", "not json").exit_code == 2
    (stored,) = rows(
        migrated_url, "SELECT CAST(properties AS text) AS input FROM manifest WHERE origin = 'runtime'"
    )
    assert json.loads(stored["input"]) == {"any": ["thing"]}


def test_an_unknown_train_of_a_known_application_is_refused(market: Command) -> None:
    refused = market(*ADD, "made", "sent", "--input", "1")

    assert refused.exit_code == 1
    assert "Known trains: send" in refused.stderr


def test_a_manifest_made_by_command_runs(market: Command) -> None:
    assert market(*ADD, "made", "send", "--input", "4", "--after", "nightly").exit_code == 0
    assert market("manifests", "trigger", "made").exit_code == 0
    assert market("work", "--until-idle").exit_code == 0

    (run,) = json.loads(market("runs", "list", "--manifest", "made", "--json").stdout)
    assert run["state"] == "completed"


def test_bulk_cancelling_asks_with_the_number_that_it_found(market: Command) -> None:
    for _ in range(3):
        assert market("queue", "enqueue", "send", "--input", "1").exit_code == 0
    for arguments in (("queue", "cancel", "--train", "send"), ("queue", "cancel", "--status", "queued")):
        asked = market(*arguments)
        assert asked.exit_code == 2
        assert "Cancel 3 jobs?" in asked.stderr
    for arguments in (("runs", "cancel", "--train", "send"), ("runs", "cancel", "--state", "in_progress")):
        found = market(*arguments)
        assert (found.exit_code, "Nothing matches." in found.stderr) == (0, True)

    done = market("queue", "cancel", "--train", "send", "--yes", "--json")
    assert len(json.loads(done.stdout)["cancelled"]) == 3
    for noun in ("queue", "runs"):
        refused = market(noun, "cancel", "--yes")
        assert (refused.exit_code, "must be chosen by ids" in refused.stderr) == (2, True)
