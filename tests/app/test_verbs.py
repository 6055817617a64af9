"""Operators' verbs in Python: all that the command line has, alike on both interfaces."""

from __future__ import annotations

import asyncio
import getpass
import inspect
import json
import re
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import pytest
from pydantic import SecretStr

from gandy import Gandy
from gandy.app import keywords
from gandy.cli.main import main
from gandy.clock import ManualClock
from gandy.desk.audit import read_trail
from gandy.errors import (
    AppNotOpenError,
    AppOpenElsewhereError,
    GandyError,
    PayloadError,
    ValueBoundsError,
)
from gandy.model.layout import MASK
from gandy.model.owners import OneOwner
from tests.app.operating import CALLS, NOUNS, VERBS, open_later
from tests.app.shop import Login, make_shop, sign_in
from tests.app.shop import double as shop_double
from tests.doors.neighbours import (
    CALLER,
    NEIGHBOUR,
    THEIRS,
    Belongings,
    belonging_to,
    belongings,
    changes_between,
    make_app,
    prepare,
    rows,
    shared_url,
    snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gandy.app.sync import SyncGandy
    from gandy.app.verbs.face import Verb
    from tests.app.operating import Given
    from tests.doors.neighbours import Snapshot
    from tests.support.databases import DatabaseHome

__all__ = ["shared_url"]

#: What the parameters are called where they are not called as the options are.
PARAMETERS = {
    "cron": "schedule",
    "every": "schedule",
    "timezone": "schedule",
    "at": "schedule",
    "type": "schedule_type",
    "max_active": "max_active_jobs",
    "enable": "enabled",
    "name": "name",
    "for": "within",
}
_RANDOM = re.compile(r"(?:(?<=\"external_id\": \")|(?<=\"worker_id\": \"))[0-9a-f-]{32,36}(?=\")")
OF_A_TERMINAL = {"json", "yes"}
#: Options that only the verb for one row takes.
OF_ONE = {"runs.rerun_many": {"input"}}
#: Python reads page by page, by `next`, and sees Gandy's own trains among the others.
OF_A_PRINTED_LIST = {"all", "admin"}


def commands_of(noun: str) -> Mapping[str, click.Command]:
    found = main.get_command(click.Context(main), noun.replace("_", "-"))
    assert found is not None
    return found.commands if isinstance(found, click.Group) else {"list": found}


def command_of(verb: str) -> str:
    """A command that takes one or many is two verbs, each with its own result."""
    return verb.removesuffix("_many")


def parameters_of(verb: Verb[..., Any]) -> set[str]:
    """Name the parameters, and the keywords that `**options` stands for."""
    found: set[str] = set()
    for parameter in verb.signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= set(getattr(keywords, re.findall(r"\w+", parameter.annotation)[1]).__annotations__)
        else:
            found.add(parameter.name)
    return found


@pytest.mark.parametrize("noun", NOUNS)
def test_every_verb_of_the_command_line_is_a_verb_in_python(noun: str) -> None:
    verbs = {name.partition(".")[2] for name in VERBS if name.startswith(f"{noun}.")}

    assert set(commands_of(noun)) == {command_of(verb) for verb in verbs if not verb.startswith("preview_")}


@pytest.mark.parametrize("name", [name for name in VERBS if "preview_" not in name])
def test_every_option_of_a_command_is_a_parameter_of_its_verb(name: str) -> None:
    noun, verb = name.split(".")
    options = [
        each.opts[0].lstrip("-").replace("-", "_")
        for each in commands_of(noun)[command_of(verb)].params
        if isinstance(each, click.Option)
    ]
    left_out = OF_A_TERMINAL | (OF_A_PRINTED_LIST if verb == "list" else set())
    wanted = {PARAMETERS.get(option, option) for option in options if option not in left_out}

    found = parameters_of(VERBS[name]) | parameters_of(VERBS.get(f"{name}_many", VERBS[name]))
    assert wanted - OF_ONE.get(name, set()) <= found


def test_what_changes_something_takes_the_name_of_an_operator_and_nothing_else_does() -> None:
    reading = {"list", "show", "logs", "preview", "explain"}
    named = {name for name, verb in VERBS.items() if "as_operator" in verb.signature.parameters}

    assert named == {
        name for name in VERBS if name.partition(".")[2] not in reading and "preview_" not in name
    }


@pytest.mark.parametrize("name", [name for name in VERBS if "preview_" in name])
def test_a_preview_takes_the_filter_of_its_verb(name: str) -> None:
    noun, verb = name.split(".")
    bulk = VERBS[f"{noun}.{verb.removeprefix('preview_')}"].signature.parameters
    chosen = bulk.keys() & {
        "name",
        "train",
        "state",
        "manifest",
        "group",
        "status",
        "gate",
        "before",
        "self",
        "filters",
    }

    assert VERBS[name].signature.parameters.keys() == chosen


def test_both_interfaces_have_the_same_verbs_with_the_same_signatures() -> None:
    app = Gandy("shop")

    for name, verb in VERBS.items():
        awaited, blocking = open_later(app, name), open_later(app.sync, name)
        assert inspect.signature(awaited) == inspect.signature(blocking)
        assert "self" not in inspect.signature(awaited).parameters
        assert awaited.__doc__ == blocking.__doc__ == verb.__doc__
        assert verb.__doc__
        assert inspect.iscoroutinefunction(awaited)
        assert not inspect.iscoroutinefunction(blocking)


@pytest.fixture
def twin_urls(database_home: DatabaseHome) -> Iterator[tuple[str, str]]:
    """Two databases with the same rows of two applications, of each kind in turn."""
    template = database_home.template("neighbours", prepare)
    with database_home.database(template) as one, database_home.database(template) as other:
        yield one, other


def test_every_verb_works_and_does_the_same_on_both_interfaces(twin_urls: tuple[str, str]) -> None:
    one, other = twin_urls
    found, clock = belongings(one, CALLER), ManualClock(datetime.now(UTC))
    assert set(CALLS) == set(VERBS)
    asked = [(name, call) for name, calls in CALLS.items() for call in calls(found)]

    app = make_app(CALLER, one)
    app.use_clock(clock)
    awaited = asyncio.run(awaited_outcomes(app, asked))
    app = make_app(CALLER, other)
    app.use_clock(clock)
    with app as sync:
        blocking = [blocking_outcome(sync, name, call) for name, call in asked]

    for (name, call), mine, theirs in zip(asked, awaited, blocking, strict=True):
        assert mine == theirs, (name, call)
    done = {name for (name, _), outcome in zip(asked, awaited, strict=True) if outcome[0] == "done"}
    assert done == set(VERBS)
    assert without_random_ids(belonging_to(CALLER, one)) == without_random_ids(belonging_to(CALLER, other))
    assert belonging_to(NEIGHBOUR, one) == belonging_to(NEIGHBOUR, other)


def without_random_ids(rows: Snapshot) -> Snapshot:
    return {table: sorted(_RANDOM.sub("*", row) for row in kept) for table, kept in rows.items()}


async def awaited_outcomes(app: Gandy, asked: list[tuple[str, Given]]) -> list[tuple[str, str]]:
    async with app:
        found = []
        for name, call in asked:
            try:
                found.append(("done", repr(await open_later(app, name)(*call.args, **call.kwargs))))
            except GandyError as error:
                found.append((type(error).__name__, str(error)))
        return found


def blocking_outcome(sync: SyncGandy, name: str, call: Given) -> tuple[str, str]:
    try:
        return "done", repr(open_later(sync, name)(*call.args, **call.kwargs))
    except GandyError as error:
        return type(error).__name__, str(error)


#: Calls that take the ids of jobs, letters, manifests and groups: one id each.
BY_ID = {
    name: verb
    for name, verb in VERBS.items()
    if verb.signature.parameters.keys() & {"run_id", "entry_id", "letter_id", "ids", "external_id", "name"}
    and name != "manifests.add"
}
NEEDED: Mapping[str, Mapping[str, Any]] = {
    "groups.set": {"priority": 3},
    "manifests.set": {"priority": 3},
    "dead_letters.acknowledge": {"note": "seen"},
}


def foreign_ids(name: str, found: Belongings) -> list[int] | list[str]:
    if name.startswith("dead_letters."):
        return found.letters
    return [THEIRS] if name.startswith(("manifests.", "groups.")) else found.jobs


async def test_the_ids_of_another_application_are_not_there_for_any_verb(shared_url: str) -> None:
    found = belongings(shared_url, NEIGHBOUR)
    before = snapshot(shared_url)
    async with make_app(CALLER, shared_url) as app:
        for name in BY_ID:
            for each in foreign_ids(name, found):
                call = open_later(app, name)(each, **NEEDED.get(name, {}))
                if "ids" in VERBS[name].signature.parameters:
                    assert (await call).unknown == (each,), name
                else:
                    with pytest.raises(LookupError) as refused:
                        await call
                    assert isinstance(refused.value, GandyError), name
                    assert NEIGHBOUR not in str(refused.value), name

    assert changes_between(before, snapshot(shared_url)) == {}


@pytest.mark.parametrize("name", VERBS)
async def test_a_verb_of_an_application_that_is_not_open_says_so(name: str) -> None:
    found = Belongings(jobs=[1, 2], letters=[1], worker="")
    call = CALLS[name](found)[0]
    noun = name.partition(".")[0]

    with pytest.raises(AppNotOpenError, match=rf"app\.{noun} needs the database"):
        await open_later(Gandy("shop"), name)(*call.args, **call.kwargs)


async def test_a_verb_in_another_event_loop_says_so(migrated_url: str) -> None:
    async with Gandy("shop", migrated_url) as app:
        with pytest.raises(AppOpenElsewhereError):
            await asyncio.to_thread(asyncio.run, app.runs.list())
        assert await asyncio.to_thread(app.sync.runs.list) == ()
    app.sync.close()


async def test_the_trail_names_the_user_and_host_of_python_or_the_given_operator(migrated_url: str) -> None:
    async with Gandy("shop", migrated_url) as app:
        app.train(name="double")(double)
        await app.manifests.add("a", "double", input=1)
        await app.manifests.disable("a", reason="a test", as_operator="ada")
        await app.manifests.remove("a", as_operator="ada")
        trail = await read_trail(app.database, OneOwner("shop"))

    user = rf"python:{re.escape(getpass.getuser())}@{re.escape(socket.gethostname())}"
    assert [(each.action, each.face) for each in trail] == [
        ("delete manifest", "python"),
        ("disable manifest", "python"),
        ("add manifest", "python"),
    ]
    assert [each.actor for each in trail[:2]] == ["ada", "ada"]
    assert re.fullmatch(user, trail[2].actor)
    assert trail[2].detail == {"train": "double", "is_new": True}


async def double(number: int) -> int:
    return 2 * number


async def test_an_operator_without_a_name_is_refused(migrated_url: str) -> None:
    async with Gandy("shop", migrated_url) as app:
        for name in ("", " ada", "a\x00da"):
            with pytest.raises(ValueBoundsError, match="as_operator"):
                await app.groups.reset("default", as_operator=name)


async def test_an_input_is_a_value_of_its_type_or_json_and_masks_keep_secrets(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        await app.enqueue(sign_in, Login(user="ada", password=SecretStr("hunter2")), max_retries=1)
        await app.work(asyncio.Event(), until_idle=True)
        (letter,) = await app.dead_letters.list()
        shown = (await app.dead_letters.show(letter.id)).input
        assert shown == {"user": "ada", "password": MASK}

        edited = await app.runs.rerun(letter.run_id, input={**shown, "user": "grace"})
        typed = await app.runs.rerun(letter.run_id, input=Login(user="lin", password=SecretStr("new")))
        stored = {entry.id: json.loads(await stored_input(app, entry.id)) for entry in (edited, typed)}
        with pytest.raises(PayloadError, match="password"):
            await app.runs.rerun(letter.run_id, input={"user": "ada"})
        with pytest.raises(PayloadError, match="mask"):
            await app.queue.enqueue(sign_in, shown)

    assert stored[edited.id] == {"user": "grace", "password": "hunter2"}
    assert stored[typed.id] == {"user": "lin", "password": "new"}


async def stored_input(app: Gandy, entry_id: int) -> str:
    (row,) = rows(
        app.settings.database.url,
        "SELECT CAST(input AS text) AS input FROM work_queue WHERE id = ?",
        entry_id,
    )
    text: str = row["input"]
    return text


async def test_a_page_of_a_listing_leads_to_the_next(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        jobs = [job.id for job in await app.enqueue_many(shop_double, range(5))]
        first = await app.queue.list(limit=2)
        assert first.next is not None
        second = await app.queue.list(limit=3, before=int(first.next))

    assert [entry.id for entry in (*first, *second)] == jobs[::-1]
