"""Choosing among many jobs on the command line: filters, orders, previews and what is said about them."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.cli.listing import read_pages
from gandy.desk.audit import Listed
from gandy.desk.choosing import walks
from gandy.desk.choosing.texts import MOST_ROWS, PAGE_ROWS
from gandy.store.reading.listings import Search, SearchedRows
from tests.doors.neighbours import CALLER, ids, make_app, rows, send, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import Gandy

__all__ = ["shared_url"]


@pytest.fixture
def market(shared_url: str, gandy: Gandy, folder: Path, imports: None) -> Callable[..., Result]:
    """The command line of an application that has jobs in every state."""
    assert imports is None
    (folder / "market.py").write_text(
        f"from tests.doors.neighbours import make_app\napp = make_app({CALLER!r})\n"
    )
    env = {"GANDY_APP": "market:app", "GANDY_DATABASE_URL": shared_url}
    return lambda *arguments: gandy(*arguments, env=env)


def listed(market: Callable[..., Result], *arguments: str) -> list[int]:
    ended = market(*arguments, "--all", "--json")
    assert ended.exit_code == 0, ended.stderr
    return [row["id"] for row in json.loads(ended.stdout)]


def test_listings_take_the_same_filters_and_say_how_far_they_looked(market: Callable[..., Result]) -> None:
    everything = listed(market, "runs", "list", "--train", "send")
    for noun in ("runs", "queue", "dead-letters"):
        for more in (["--since", "1d"], ["--until", "2999-01-01T00:00:00Z"], ["--group", "nobody"]):
            assert market(noun, "list", *more).exit_code == 0
        found = market(noun, "list", "--error-has", "unlucky", "--input-has", "13", "--json")
        assert isinstance(json.loads(found.stdout), list), "the shape of the list is as it was"
        assert "Looked at the texts of the newest" in found.stderr
    unlucky = listed(market, "runs", "list", "--error-has", "UNLUCKY")
    assert unlucky
    assert set(unlucky) < set(everything)
    assert listed(market, "runs", "list", "--train", "send", "--sort", "start_time") != []
    assert sorted(listed(market, "runs", "list", "--train", "send", "--since", "1d")) == sorted(everything)


def test_a_command_looks_as_far_as_four_pages_of_a_search_in_texts() -> None:
    starts: list[object] = []

    async def read(start: object, length: int) -> Listed[int]:
        assert length == 51
        starts.append(start)
        looked = SearchedRows(PAGE_ROWS, None)
        return Listed.of(Search([], 100 - len(starts), is_cut=True, looked=looked), lambda row: row.id)

    found = asyncio.run(read_pages(read, None, 50))

    assert starts == [None, 99, 98, 97]
    assert found.remark is not None
    assert f"newest {MOST_ROWS:,} rows" in found.remark
    assert "pass --before 96 to continue" in found.remark


def test_a_command_that_keeps_few_rows_reads_more_only_if_it_has_to() -> None:
    lengths: list[int] = []

    async def read(start: object, length: int) -> Listed[int]:
        lengths.append(length)
        first = 0 if start is None else int(str(start)) + 1
        found = Search([*range(first, first + length)], first + length - 1, is_cut=False)
        return Listed.of(found, int)

    rows = asyncio.run(read_pages(read, None, 5, keep=lambda row: row % 10 == 0, key="real")).rows

    assert list(rows) == [0, 10, 20, 30, 40]
    assert lengths == [6, 60]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runs", "list", "--sort", "took"], "'id', 'start_time'"),
        (["runs", "list", "--sort", "start_time"], "with a train and a single owner also start_time"),
        (["queue", "list", "--sort", "scheduled_at"], "with gate time and a single owner also scheduled_at"),
        (["runs", "list", "--since", "someday"], "before now, or a datetime"),
        (["runs", "rerun"], "must be chosen by ids, or by"),
        (["runs", "rerun", "1", "2", "--input", "3"], "--input replaces the input of a single run"),
        (["dead-letters", "requeue", "1", "--since", "1h"], "filters select among --all"),
    ],
)
def test_what_cannot_be_done_is_said(market: Callable[..., Result], arguments: list[str], said: str) -> None:
    ended = market(*arguments)

    assert ended.exit_code in {1, 2}
    assert said in " ".join(ended.stderr.split())


def test_many_runs_are_repeated_after_a_preview(market: Callable[..., Result], shared_url: str) -> None:
    chosen = ["runs", "rerun", "--train", "send", "--state", "failed", "--since", "1d"]
    before = ids(shared_url, "work_queue", "status = 'queued'", owner=CALLER)

    asked = market(*chosen)

    assert asked.exit_code == 2
    assert "failed of send" in asked.stderr
    assert "No terminal to confirm on; pass --yes." in asked.stderr
    assert ids(shared_url, "work_queue", "status = 'queued'", owner=CALLER) == before
    done = json.loads(market(*chosen, "--yes", "--json").stdout)
    assert f"Rerun {len(done['rerun'])} jobs?" in asked.stderr
    assert {each["repeats"] for each in done["rerun"]} == set(
        listed(market, "runs", "list", "--train", "send", "--state", "failed")
    )
    (deed, *_) = rows(shared_url, "SELECT action, face FROM audit ORDER BY id DESC LIMIT 1")
    assert dict(deed) == {"action": "rerun", "face": "cli"}
    assert market("runs", "rerun", "777777", "888888", "--json").exit_code == 1


class Arrival:
    """An operator who agrees after other jobs of the same kind have arrived."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.number = 0

    def answer(self, question: str, *, yes: bool) -> None:
        assert not yes
        self.number = int(re.findall(r"\d+", question)[0])
        asyncio.run(self._arrive())

    async def _arrive(self) -> None:
        async with make_app(CALLER, self.url) as app:
            await app.enqueue_many(send, [5, 6], delay=timedelta(days=1))


@pytest.mark.parametrize(
    "arguments",
    [
        ["queue", "cancel", "--train", "send"],
        ["runs", "rerun", "--train", "send", "--state", "failed"],
        ["runs", "cancel", "--train", "send"],
        ["dead-letters", "requeue", "--all", "--train", "send"],
        ["dead-letters", "acknowledge", "--all", "--note", "seen", "--train", "send"],
    ],
)
@pytest.mark.parametrize("named", [1_000, 0])
def test_what_arrives_before_the_answer_is_not_touched(
    market: Callable[..., Result],
    shared_url: str,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    named: int,
) -> None:
    monkeypatch.setattr(walks, "MOST_NAMED", named)
    arrival = Arrival(shared_url)
    monkeypatch.setattr("gandy.cli.bulk.confirm", arrival.answer)

    ended = market(*arguments, "--json")

    assert ended.exit_code == 0, ended.stderr
    assert arrival.number >= 1
    parts = json.loads(ended.stdout)
    done = next(parts[key] for key in ("cancelled", "rerun", "requeued", "acknowledged") if key in parts)
    assert len(done) + len(parts.get("asked_to_stop", ())) == arrival.number
    assert ("comes to match meanwhile" in ended.stderr) is (named == 0)


def test_letters_of_a_text_are_previewed_and_resolved(market: Callable[..., Result]) -> None:
    chosen = ["dead-letters", "acknowledge", "--all", "--note", "seen", "--input-has", "13"]

    asked = market(*chosen)
    done = market(*chosen, "--yes", "--json")

    number = len(json.loads(done.stdout)["acknowledged"])
    assert number > 0
    assert f"Acknowledge {number} dead letter" in asked.stderr
    assert "awaiting intervention of send" in asked.stderr


@pytest.mark.parametrize("wanted", [("--train", "sned"), ("--group", "defualt"), ("--manifest", "nigtly")])
def test_a_name_that_nothing_has_is_told_and_a_bulk_change_refused(
    market: Callable[..., Result], wanted: tuple[str, str]
) -> None:
    for noun in ("runs", "queue", "dead-letters"):
        found = market(noun, "list", *wanted, "--json")

        assert (found.exit_code, json.loads(found.stdout)) == (0, [])
        assert wanted[1] in found.stderr
    for verb in (
        ("runs", "cancel"),
        ("runs", "rerun"),
        ("queue", "cancel"),
        ("dead-letters", "requeue", "--all"),
        ("dead-letters", "acknowledge", "--all", "--note", "done"),
    ):
        refused = market(*verb, *wanted, "--yes")

        assert refused.exit_code == market("groups", "show", "elt").exit_code == 1, refused.stderr
        assert wanted[1] in refused.stderr


def test_a_mistyped_train_is_told_with_a_similar_one(market: Callable[..., Result]) -> None:
    for command in (("runs", "list"), ("queue", "list"), ("stats",), ("stats", "--manifests")):
        assert "did you mean send" in market(*command, "--train", "sned").stderr, command
        assert "sned" not in market(*command, "--train", "sned", "--json").stdout
