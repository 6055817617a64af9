"""A bulk change by a text says at every door how far its search looked, and goes on from there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from gandy.desk.choosing import walks
from tests.app.operating import open_later
from tests.doors.neighbours import CALLER, TOKEN, make_app, shared_url
from tests.web.conftest import client_of, log_in
from tests.web.test_choosing import hidden_fields
from tests.web.test_pages import submit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import Gandy

__all__ = ["shared_url"]


class Change(NamedTuple):
    """A verb: its name in Python, its route, a text that several rows have, and what else it takes."""

    name: str
    route: str
    text: str
    more: Mapping[str, Any] = {}

    @property
    def command(self) -> list[str]:
        words = [f"--{key}" if value is True else f"--{key}={value}" for key, value in self.more.items()]
        return [*self.route.split("/"), *words, "--input-has", self.text]


CHANGES = [
    Change("runs.cancel", "runs/cancel", "2"),
    Change("runs.rerun_many", "runs/rerun", "13"),
    Change("queue.cancel", "queue/cancel", "5"),
    Change("dead_letters.requeue", "dead-letters/requeue", "13", {"all": True}),
    Change("dead_letters.acknowledge", "dead-letters/acknowledge", "13", {"all": True, "note": "seen"}),
]
changes = pytest.mark.parametrize("change", CHANGES, ids=[each.name for each in CHANGES])
_MOST_CALLS = 30


@pytest.fixture(autouse=True)
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "MOST_ROWS", 1)


def touched(answer: Any) -> set[int]:  # noqa: ANN401 a result, or its JSON
    """Return what a verb changed, in any door's words."""

    def value(key: str) -> Sequence[Any]:
        found: Sequence[Any] = answer.get(key, ()) if isinstance(answer, dict) else getattr(answer, key, ())
        return found

    ids = [id_ for key in ("cancelled", "asked", "asked_to_stop", "acknowledged") for id_ in value(key)]
    for key, inner in (("rerun", "repeats"), ("requeued", "letter_id")):
        ids += [each[inner] if isinstance(each, dict) else getattr(each, inner) for each in value(key)]
    return {*ids, *value("resolved")}


async def walked(call: Callable[[int | None], Awaitable[Any]]) -> tuple[set[int], int]:
    """Call a verb until it has looked at everything; return what it changed, and the number of calls."""
    found: set[int] = set()
    before: int | None = None
    for calls in range(1, _MOST_CALLS):
        answer = await call(before)
        is_json = isinstance(answer, dict)
        found |= touched(answer)
        looked, before = (answer["looked"], answer["next"]) if is_json else (answer.looked, answer.next)
        assert (looked["rows"] if is_json else looked.rows) <= 2, "a search for each state of a live run"
        if before is None:
            return found, calls
    raise AssertionError("the search does not end")


async def all_of(url: str, change: Change, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return what the verb would change if one search looked at everything."""
    with monkeypatch.context() as patch:
        patch.setattr(walks, "MOST_ROWS", 10_000)
        async with make_app(CALLER, url) as app:
            noun, verb = change.name.split(".")
            found = await open_later(app, f"{noun}.preview_{verb}")(input_has=change.text)
    assert found
    assert (found.next, found.is_cut) == (None, False)
    return set(found)


@changes
async def test_a_verb_of_python_says_where_it_stopped_and_goes_on(
    shared_url: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = await all_of(shared_url, change, monkeypatch)
    noun, verb = change.name.split(".")
    async with make_app(CALLER, shared_url) as app:
        preview = await open_later(app, f"{noun}.preview_{verb}")(input_has=change.text)
        assert preview.is_cut
        assert preview.looked is not None

        call = open_later(app, change.name)
        found, calls = await walked(lambda at: call(input_has=change.text, before=at, **change.more))

    assert found == wanted
    assert calls > 1


@changes
async def test_a_route_says_where_it_stopped_and_goes_on(
    shared_url: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = await all_of(shared_url, change, monkeypatch)
    async with make_app(CALLER, shared_url) as app, client_of(app, token=TOKEN) as client:

        async def call(before: int | None, **more: object) -> dict[str, Any]:
            body = {"input_has": change.text, "before": before, **change.more, **more}
            answer = await client.post(f"/api/v1/{change.route}", json=body)
            assert answer.status_code == 200, answer.text
            result: dict[str, Any] = answer.json()
            return result

        preview = await call(None, preview=True)
        assert preview["next"] is not None
        found, calls = await walked(call)
        beside = await client.post(f"/api/v1/{change.route}", json={"ids": [1], "before": 7, **change.more})

    assert found == wanted
    assert calls > 1
    assert beside.status_code == 422


@pytest.fixture
def market(shared_url: str, gandy: Gandy, folder: Path, imports: None) -> Callable[..., Result]:
    """The command line of the application."""
    assert imports is None
    (folder / "market.py").write_text(
        f"from tests.doors.neighbours import make_app\napp = make_app({CALLER!r})\n"
    )
    env = {"GANDY_APP": "market:app", "GANDY_DATABASE_URL": shared_url}
    return lambda *arguments: gandy(*arguments, env=env)


@changes
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_command_says_where_it_stopped_and_goes_on(
    market: Callable[..., Result], change: Change, monkeypatch: pytest.MonkeyPatch, *, is_asked: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("gandy.cli.bulk.confirm", lambda question, **_: asked.append(question))
    command = [*change.command, "--json", *(() if is_asked else ("--yes",))]
    ended = market(*command)

    answer = json.loads(ended.stdout)
    assert answer["next"] is not None
    found: set[int] = set()
    for _ in range(_MOST_CALLS):
        answer = json.loads(ended.stdout)
        found |= touched(answer)
        if answer["next"] is None:
            break
        assert ended.exit_code == 1
        assert "Older rows were not looked at, and are not changed" in ended.stderr
        assert f"pass --before {answer['next']} to continue" in ended.stderr
        assert answer["looked"]["rows"] <= 2
        ended = market(*command, "--before", str(answer["next"]))
    assert (ended.exit_code, answer["next"]) == (0, None), ended.stderr
    assert found
    assert bool(asked) is is_asked


@changes
def test_what_was_not_looked_at_is_not_changed_if_a_confirmed_search_gets_further(
    market: Callable[..., Result], change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More matches than are named are searched again; what others resolved meanwhile leaves it more room."""

    def agree(_: str, **__: object) -> None:
        monkeypatch.setattr(walks, "MOST_ROWS", 10_000)

    monkeypatch.setattr(walks, "MOST_NAMED", 0)
    monkeypatch.setattr("gandy.cli.bulk.confirm", agree)

    for rows in range(1, 10):  # until a search of so many rows finds some, and stops before the last row
        monkeypatch.setattr(walks, "MOST_ROWS", rows)
        ended = market(*change.command, "--json")
        answer = json.loads(ended.stdout)
        told = re.search(r"pass --before (\d+) to continue", ended.stderr)
        if told is not None and touched(answer):
            break

    assert told is not None, ended.stderr
    assert answer["next"] == int(told[1])
    assert min(touched(answer)) >= answer["next"]


def test_what_a_command_found_nothing_of_is_not_asked(
    market: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gandy.cli.bulk.confirm", lambda question, **_: pytest.fail(question))

    stopped = market("runs", "rerun", "--input-has", "no such text")
    none = market("runs", "rerun", "--train", "send", "--until", "2001-01-01T00:00Z")

    assert stopped.exit_code == 1
    assert "Nothing of that matches." in stopped.stderr
    assert none.exit_code == 0
    assert "Nothing matches." in none.stderr


@changes
async def test_a_page_says_where_it_stopped_and_searches_the_rest(shared_url: str, change: Change) -> None:
    noun, verb = change.route.split("/")
    async with make_app(CALLER, shared_url) as app, client_of(app, token=TOKEN) as pages:
        del pages.headers["Authorization"]
        await log_in(pages, TOKEN)
        fields = {"verb": verb, "scope": "all", "input_has": change.text}
        shown = await submit(pages, f"/{noun}", f"/{noun}/preview", **fields)
        for _ in range(_MOST_CALLS):
            assert "were not looked at, and are not changed" in shown.text
            if re.search(r"Ids: ", shown.text):
                break
            shown = await submit(pages, f"/{noun}", f"/{noun}/preview", **hidden_fields(shown.text))
        *_, confirmed = shown.text.split("Ids: ")
        apply = "resolve" if noun == "dead-letters" else "apply"
        note = {"note": "seen"} if "note" in change.more else {}
        done = await submit(pages, f"/{noun}", f"/{noun}/{apply}", **hidden_fields(confirmed), **note)

    assert done.status_code == 200
    assert re.search(r"Texts below the id \d+ were not searched\.", done.text)
