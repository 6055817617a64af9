"""Dependents as an application declares them: every form, and what is refused with what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NewType, TypedDict

import pytest

from gandy import Gandy, every
from gandy.errors import DeclarationError, DependencyCycleError
from gandy.model.schedule import Dependent, DormantDependent, EdgeKind
from gandy.train.definition import fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.app.keywords import EndWord, Scheduled
    from gandy.model.manifest import ManifestDeclaration
    from gandy.model.schedule import Schedule

HOURLY = every(hours=1)


@dataclass
class Rows:
    count: int


class ManyRows(Rows): ...


def extract(day: int) -> ManyRows:
    return ManyRows(day)


def load(rows: Rows) -> int:
    return rows.count


def alarm(text: str) -> None:
    assert text


def tidy() -> None:
    return None


@pytest.fixture
def app() -> Gandy:
    app = Gandy("shop", database="sqlite:///never-opened.db")
    for function in (extract, load, alarm, tidy):
        app.train(function)
    return app


@pytest.fixture
def parent(app: Gandy) -> Scheduled:
    return app.schedule("extract", extract, 1, HOURLY)


def declared(app: Gandy, external_id: str) -> ManifestDeclaration:
    return next(each for each in app.declarations.manifests if each.external_id == external_id)


def place(app: Gandy, external_id: str) -> Schedule:
    return declared(app, external_id).schedule


def test_after_takes_what_was_declared_or_an_id_or_several(app: Gandy, parent: Scheduled) -> None:
    other = app.schedule("other", tidy, HOURLY)
    app.schedule("one", tidy, after=parent)
    app.schedule("by-id", tidy, after="made-at-run-time")
    app.schedule("merge", load, Rows(1), after=[parent, "made-at-run-time", other], on="end")

    assert place(app, "one") == Dependent("extract")
    assert place(app, "by-id") == Dependent("made-at-run-time")
    assert place(app, "merge") == Dependent("extract", "made-at-run-time", "other", on=EdgeKind.END)


def test_after_takes_all_members_of_a_batch(app: Gandy) -> None:
    batch = app.schedule_many("sync", extract, {"users": 1, "orders": 2}, HOURLY)
    app.schedule("merge", tidy, after=batch)

    assert place(app, "merge") == Dependent("sync-users", "sync-orders")


@pytest.mark.parametrize("on", ["success", "failure", "end"])
def test_then_follows_the_end_that_it_names(app: Gandy, parent: Scheduled, on: EndWord) -> None:
    parent.then("alarm", alarm, "extract failed", on=on)

    assert place(app, "alarm") == Dependent("extract", on=EdgeKind(on))


def test_then_many_declares_a_batch_of_dependents(app: Gandy, parent: Scheduled) -> None:
    made = parent.then_many(
        "copy", load, {"a": Rows(1), "b": Rows(2)}, on="failure", options={"b": {"priority": 9}}, keep_last=3
    )

    assert {key: each.external_id for key, each in made.items()} == {"a": "copy-a", "b": "copy-b"}
    for name, priority in (("copy-a", None), ("copy-b", 9)):
        manifest = declared(app, name)
        assert manifest.schedule == Dependent("extract", on=EdgeKind.FAILURE)
        assert (manifest.group, manifest.batch) == ("copy", "copy")
        assert (manifest.priority, manifest.keep_last) == (priority, 3)


def test_many_dormant_dependents_know_their_train(app: Gandy, parent: Scheduled) -> None:
    parent.then_many("delta", load, {"a": Rows(1)}, dormant=True)

    assert place(app, "delta-a") == DormantDependent("extract")
    assert app.registry.dormant["delta-a"].name == "load"


def test_a_member_of_a_batch_has_options_of_its_own(app: Gandy) -> None:
    app.schedule_many(
        "sync",
        extract,
        {"users": 1, "orders": 2},
        HOURLY,
        priority=2,
        options={"orders": {"priority": 5, "group": "slow"}},
    )

    found = {each.external_id: (each.priority, each.group) for each in app.declarations.manifests}
    assert found == {"sync-users": (2, "sync"), "sync-orders": (5, "slow")}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"order": {"priority": 5}}, "options are given for order, which no input has"),
        ({"orders": 5}, "options must be a mapping"),
        ([("orders", {})], "options must be a mapping"),
        ({"orders": {"priority": 99}}, "priority must be"),
    ],
)
def test_bad_options_of_a_member_declare_nothing(app: Gandy, options: object, problem: str) -> None:
    declare_many: Any = app.schedule_many
    with pytest.raises(DeclarationError, match=problem):
        declare_many("sync", extract, {"users": 1, "orders": 2}, HOURLY, options=options)

    assert app.declarations.manifests == ()


def test_an_unknown_option_of_a_member_is_a_type_error(app: Gandy) -> None:
    options: Any = {"orders": {"after": "extract"}}

    with pytest.raises(TypeError, match="unexpected keyword argument 'after'"):
        app.schedule_many("sync", extract, {"orders": 2}, HOURLY, options=options)


def test_the_output_of_the_parent_takes_the_place_of_the_input(app: Gandy, parent: Scheduled) -> None:
    parent.then("load", load, pass_output=True)
    app.schedule("load-too", load, after="extract", pass_output=True)

    for name in ("load", "load-too"):
        assert place(app, name) == Dependent("extract", is_output_passed=True)
        assert declared(app, name).input_json is None


NONSENSE: dict[str, tuple[dict[str, Any], str]] = {
    "no parents": ({"after": []}, "after must be"),
    "no id": ({"after": ""}, "after must be"),
    "not an id": ({"after": ["extract", 7]}, "after must be"),
    "a parent twice": ({"after": ["extract", "extract"]}, "name each one once"),
    "an unknown end": ({"after": "extract", "on": "error"}, "on must be one of success, failure, end"),
    "an end without a parent": ({"on": "end"}, "on needs a parent; pass after"),
    "an output without a parent": ({"pass_output": True}, "pass_output needs a parent; pass after"),
    "dormant without a parent": ({"dormant": True}, "needs a parent; pass after"),
    "dormant under two": ({"after": ["extract", "b"], "dormant": True}, "has one parent.*pass one after"),
    "dormant on an end": (
        {"after": "extract", "dormant": True, "on": "success"},
        "leave out on or dormant",
    ),
    "dormant with an output": (
        {"after": "extract", "dormant": True, "pass_output": True},
        "leave out pass_output or dormant",
    ),
    "the output of two": ({"after": ["extract", "b"], "pass_output": True}, "needs one parent, not 2"),
    "the output of an end": (
        {"after": "extract", "on": "end", "pass_output": True},
        "only a success has an output; leave out",
    ),
    "a schedule and a parent": (
        {"after": "extract", "schedule": HOURLY},
        "both a schedule and a parent; choose one",
    ),
    "an input and an output": (
        {"after": "extract", "input": Rows(1), "pass_output": True},
        "leave out the input",
    ),
    "a switch that is none": (
        {"after": "extract", "pass_output": "yes"},
        "pass_output must be true or false",
    ),
}


@pytest.mark.parametrize(("options", "problem"), NONSENSE.values(), ids=NONSENSE)
def test_what_makes_no_sense_is_refused_with_what_to_do(
    app: Gandy, parent: Scheduled, options: dict[str, Any], problem: str
) -> None:
    assert parent.external_id == "extract"
    given = {"input": Rows(1), **options} if not options.get("pass_output") else options
    schedule: Any = app.schedule

    with pytest.raises(DeclarationError, match=problem):
        schedule("bad", load, **given)

    assert [each.external_id for each in app.declarations.manifests] == ["extract"]


@pytest.mark.parametrize(
    ("train", "problem"),
    [
        (alarm, "train extract gives ManyRows, and train alarm takes str; change one of them"),
        (tidy, "train tidy takes no input; leave out pass_output"),
    ],
)
def test_an_output_that_does_not_fit_is_refused(
    parent: Scheduled, train: Callable[[str], None], problem: str
) -> None:
    with pytest.raises(DeclarationError, match=problem):
        parent.then("bad", train, pass_output=True)


def test_a_train_without_an_output_passes_none(app: Gandy) -> None:
    quiet = app.schedule("quiet", tidy, HOURLY)

    with pytest.raises(DeclarationError, match="train tidy gives None, and train load takes Rows"):
        quiet.then("load", load, pass_output=True)


def test_a_cycle_of_ids_is_refused_when_it_closes(app: Gandy) -> None:
    app.schedule("a", tidy, after=["b", "other"])
    app.schedule("b", tidy, after="c")

    with pytest.raises(DependencyCycleError, match="c -> a -> b -> c"):
        app.schedule("c", tidy, after=["later", "a"])
    with pytest.raises(DependencyCycleError, match="d -> d"):
        app.schedule("d", tidy, after="d")


Number = NewType("Number", int)


class Told(TypedDict):
    text: str


@pytest.mark.parametrize(
    ("given", "wanted", "is_fit"),
    [
        (int, int, True),
        (int, float, True),
        (float, int, False),
        (bool, int, True),
        (ManyRows, Rows, True),
        (Rows, ManyRows, False),
        (str, Any, True),
        (str, object, True),
        (Any, str, True),
        (None, str, False),
        (None, str | None, True),
        (str, str | None, True),
        (str | None, str, False),
        (int | str, int | str | None, True),
        (list[int], list[int], True),
        (list[int], list[str], False),
        (list[ManyRows], list[Rows], True),
        (dict[str, int], dict[str, int], True),
        (Annotated[int, "positive"], int, True),
        (int, Annotated[int, "positive"], True),
        (Number, int, True),
        (Told, Told, True),
        (dict, Told, False),
        (str, "unresolved", False),
    ],
)
def test_outputs_fit_inputs_as_far_as_their_types_tell(given: object, wanted: object, is_fit: bool) -> None:
    assert fits(given, wanted) is is_fit
