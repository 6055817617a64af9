"""Every command, with another owner's ids: it is not there, and nothing happens unless the owner is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest

from gandy.cli.main import main
from tests.doors.neighbours import (
    CALLER,
    NEIGHBOUR,
    THEIRS,
    belonging_to,
    belongings,
    changes_between,
    snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import Gandy
    from tests.doors.neighbours import Belongings

APP = f"from tests.doors.neighbours import make_app\napp = make_app({CALLER!r})\n"
#: Commands that no owner is named to, each for a reason.
WITHOUT_OWNER = {
    "config": "settings, not rows",
    "demo": "a database of its own",
    "doctor": "the whole database where no application is named",
    "init": "writes files",
    "lifecycle": "the tables of any application, by contract",
    "migrate": "the schema of the whole database",
}
#: Commands that work for the application that they load, and for nothing else.
OF_THE_APPLICATION = {"sync", "tick", "trains list", "up", "work", "queue enqueue"}
#: What to pass for required options, by name.
OPTIONS = {"note": ["--note", "seen"], "yes": ["--yes"]}


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        elif command is not None:
            yield " ".join((*path, name)), command


COMMANDS = {
    name: command
    for name, command in commands(main)
    if name.split()[0] not in WITHOUT_OWNER and name not in OF_THE_APPLICATION
}
#: Commands that make something of a name that may be free, with a call of each.
MAKING = {"manifests add": ["new", "send", "--input", "1"]}
WITH_ID = {
    name: command
    for name, command in COMMANDS.items()
    if name not in MAKING and any(isinstance(parameter, click.Argument) for parameter in command.params)
}
BULK = {
    name: command
    for name, command in COMMANDS.items()
    if any(parameter.name == "everything" for parameter in command.params)
}
BY_FILTER = {
    name: command
    for name, command in COMMANDS.items()
    if name not in BULK and any(parameter.nargs == -1 for parameter in command.params)
}


class Shell:
    """The command line of the caller, in a folder with its application."""

    def __init__(self, gandy: Gandy, url: str) -> None:
        self.gandy = gandy
        self.url = url

    def __call__(self, *arguments: str, app: str = "market:app") -> Result:
        return self.gandy(*arguments, env={"GANDY_APP": app, "GANDY_DATABASE_URL": self.url})

    def without_app(self, *arguments: str) -> Result:
        return self.gandy(*arguments, env={"GANDY_DATABASE_URL": self.url})


@pytest.fixture
def shell(shared_url: str, gandy: Gandy, folder: Path, imports: None) -> Shell:
    assert imports is None
    (folder / "market.py").write_text(APP)
    return Shell(gandy, shared_url)


def calls(name: str, command: click.Command, known: Mapping[str, Sequence[object]]) -> Iterator[list[str]]:
    """Fill the arguments; one that is not known, or a required option without a sample, raises."""
    (argument,) = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    options: list[str] = []
    for parameter in command.params:
        if isinstance(parameter, click.Option) and (parameter.required or parameter.name == "yes"):
            options += OPTIONS[str(parameter.name)]
    if name.endswith(" set"):
        options += ["--priority", "5"]
    for value in known[str(argument.name)]:
        yield [*name.split(), str(value), *options]


def ids_of(found: Belongings) -> dict[str, Sequence[object]]:
    return {
        "run_id": found.jobs,
        "run_ids": found.jobs,
        "entry_id": found.jobs,
        "entry_ids": found.jobs,
        "letter_id": found.letters,
        "letter_ids": found.letters,
        "worker_id": [found.worker],
        "external_id": [THEIRS],
        "name": [THEIRS],
    }


def test_another_owners_id_is_not_there_for_any_command_and_nothing_happens(shell: Shell) -> None:
    known = ids_of(belongings(shell.url, NEIGHBOUR))
    before = snapshot(shell.url)
    for name, command in WITH_ID.items():
        asked = [*calls(name, command, known)]
        assert asked, name
        for arguments in asked:
            ended = shell(*arguments)
            assert ended.exit_code == 1, (arguments, ended.stdout, ended.stderr)
            assert NEIGHBOUR not in ended.output, arguments
        assert changes_between(before, snapshot(shell.url)) == {}, name


def test_every_bulk_verb_touches_only_the_callers_rows(shell: Shell) -> None:
    before = belonging_to(NEIGHBOUR, shell.url)
    assert BULK
    for name, command in BULK.items():
        options = [part for each in command.params if each.required for part in OPTIONS[str(each.name)]]
        assert shell(*name.split(), "--all", "--yes", *options).exit_code == 0, name
    assert BY_FILTER
    for name in BY_FILTER:
        assert shell(*name.split(), "--train", "send", "--yes").exit_code == 0, name
    for verb in ("trigger", "cancel"):
        assert shell("groups", verb, "etl", "--yes").exit_code == 0, verb

    assert changes_between(before, belonging_to(NEIGHBOUR, shell.url)) == {}


def test_no_listing_shows_anything_of_another_owner(shell: Shell) -> None:
    listings = [name for name in COMMANDS if name.endswith(" list")]
    assert len(listings) >= 5
    for name in listings:
        ended = shell(*name.split(), "--json")
        assert ended.exit_code == 0, name
        assert {row["owner"] for row in json.loads(ended.stdout)} == {CALLER}, name


def test_a_command_without_an_application_says_that_it_needs_an_owner_and_which_there_are(
    shell: Shell,
) -> None:
    known = ids_of(belongings(shell.url, NEIGHBOUR))
    before = snapshot(shell.url)
    for name, command in COMMANDS.items():
        given = [*name.split(), *MAKING.get(name, ())]
        arguments = next(calls(name, command, known)) if name in WITH_ID else given
        ended = shell.without_app(*arguments)
        assert ended.exit_code == 2, (arguments, ended.output)
        for word in ("--owner", "--all-owners", CALLER, NEIGHBOUR):
            assert word in ended.stderr, arguments

    assert changes_between(before, snapshot(shell.url)) == {}


def test_an_owner_that_is_named_is_seen_with_an_application_or_without(shell: Shell) -> None:
    found = belongings(shell.url, NEIGHBOUR)
    for call in (shell, shell.without_app):
        shown = call("--owner", NEIGHBOUR, "manifests", "show", THEIRS, "--json")
        assert json.loads(shown.stdout)["owner"] == NEIGHBOUR
        listed = json.loads(call("--owner", NEIGHBOUR, "runs", "list", "--json").stdout)
        assert {row["owner"] for row in listed} == {NEIGHBOUR}
        assert {row["id"] for row in listed} <= set(found.jobs)

    before = belonging_to(CALLER, shell.url)
    assert shell.without_app("--owner", NEIGHBOUR, "manifests", "trigger", "nightly").exit_code == 0
    assert changes_between(before, belonging_to(CALLER, shell.url)) == {}


def test_a_name_of_another_owner_is_free_to_be_made_and_theirs_stays(shell: Shell) -> None:
    before = belonging_to(NEIGHBOUR, shell.url)
    made = shell("manifests", "add", THEIRS, "send", "--input", "1", "--json")

    assert json.loads(made.stdout)["owner"] == CALLER
    assert shell("--all-owners", "manifests", "add", "new", "send").exit_code == 2
    assert changes_between(before, belonging_to(NEIGHBOUR, shell.url)) == {}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.endswith(" list")])
def test_a_listing_of_all_owners_has_a_column_for_them(shell: Shell, name: str) -> None:
    plain = shell.without_app("--all-owners", *name.split())
    assert plain.stdout.split()[0] == "OWNER"

    rows = json.loads(shell.without_app("--all-owners", *name.split(), "--json").stdout)
    assert {row["owner"] for row in rows} == {CALLER, NEIGHBOUR}


def test_a_name_that_several_owners_have_is_refused_and_they_are_named(shell: Shell) -> None:
    before = snapshot(shell.url)
    known: dict[str, Sequence[object]] = {"external_id": ["nightly"], "name": ["etl"]}
    for name, command in WITH_ID.items():
        if name.split()[0] in {"manifests", "groups"}:
            for arguments in calls(name, command, known):
                ended = shell("--all-owners", *arguments)
                assert ended.exit_code == 2, (arguments, ended.output)
                assert CALLER in ended.stderr, arguments
                assert NEIGHBOUR in ended.stderr, arguments

    assert changes_between(before, snapshot(shell.url)) == {}
    assert shell("--all-owners", "manifests", "show", THEIRS).exit_code == 0


def test_a_bulk_verb_for_all_owners_still_asks(shell: Shell) -> None:
    before = snapshot(shell.url)
    for name, command in BULK.items():
        options = [part for each in command.params if each.required for part in OPTIONS[str(each.name)]]
        assert shell("--all-owners", *name.split(), "--all", *options).exit_code == 2, name
    assert changes_between(before, snapshot(shell.url)) == {}

    assert (
        shell("--all-owners", "dead-letters", "acknowledge", "--all", "--yes", "--note", "x").exit_code == 0
    )
    assert changes_between(before, snapshot(shell.url)).keys() >= {"dead_letter"}


@pytest.mark.parametrize("name", sorted(OF_THE_APPLICATION))
@pytest.mark.parametrize("owner", [["--owner", NEIGHBOUR], ["--all-owners"]])
def test_what_works_for_its_application_works_for_no_other(shell: Shell, name: str, owner: list[str]) -> None:
    more = {"tick": ["dispatcher"], "queue enqueue": ["send", "--input", "1"]}.get(name, [])
    before = snapshot(shell.url)

    ended = shell(*owner, *name.split(), *more)

    assert ended.exit_code == 2, ended.output
    assert CALLER in ended.stderr
    assert changes_between(before, snapshot(shell.url)) == {}


SINGLE = {"--app": "market:app", "--database": "sqlite:///other.db", "--owner": NEIGHBOUR}


@pytest.mark.parametrize("option", SINGLE)
@pytest.mark.parametrize("form", ["twice", "twice, joined", "twice the same", "empty", "blank"])
def test_a_global_option_has_one_value(shell: Shell, option: str, form: str) -> None:
    given = {
        "twice": [option, "something", option, SINGLE[option]],
        "twice, joined": [f"{option}={SINGLE[option]}", f"{option}=something"],
        "twice the same": [option, SINGLE[option], option, SINGLE[option]],
        "empty": [option, ""],
        "blank": [f"{option}= "],
    }[form]

    ended = shell(*given, "runs", "list")

    assert ended.exit_code == 2, ended.output
    assert ended.stdout == ""
    assert option in ended.stderr.splitlines()[-1]
    assert ("once" in ended.stderr) is form.startswith("twice")


def test_a_wrong_owner_is_refused_and_the_others_are_named(shell: Shell) -> None:
    ended = shell("--owner", "nobody", "runs", "list")
    assert ended.exit_code == 2
    assert NEIGHBOUR in ended.stderr

    both = shell("--owner", CALLER, "--all-owners", "runs", "list")
    assert both.exit_code == 2
    assert "exclude" in both.stderr
