"""Every hostile value at every option of every call in Python."""

from __future__ import annotations

import inspect
from collections import defaultdict
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from gandy import Gandy, Retry, Run, Train, every
from gandy.app.keywords import CleanupKeywords, EnqueueKeywords, PlacedKeywords, ScheduleKeywords
from gandy.desk.audit import local_operator
from gandy.desk.groups import GroupChanges
from gandy.desk.queue import EnqueueOptions, QueueDesk
from gandy.desk.schedules import OVERRIDABLE, ManifestChanges, override_values
from gandy.errors import GandyError
from gandy.model.manifest import MANIFEST_OPTIONS, OPTIONS_OF_INSTANTS, BatchDeclaration, GroupDeclaration
from gandy.model.owners import ALL_OWNERS
from gandy.model.schedule import MisfirePolicy
from gandy.settings.bounds import BOUNDS
from gandy.store.drivers.opening import migrate
from gandy.store.reading.listings import EntryFilter
from gandy.train.definition import TrainOptions
from tests.hostile.values import (
    HOSTILE,
    Hostile,
    Judge,
    innocent,
    make_app,
    still_works,
)
from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["migrated_url"]

KIND_OF_OPTIONS: Final = (
    TrainOptions,
    EnqueueOptions,
    GroupChanges,
    GroupDeclaration,
    BatchDeclaration,
)
#: Options whose values are objects of ours, which check themselves when they are made.
OF_THEIR_OWN: Final = {"exclude", "exclusions", "schedule", "input_json"}
#: Connections are the driver's to judge.
NOT_A_VALUE: Final = {"connection", "trains"}


def test_the_table_has_enough_values_of_every_kind() -> None:
    assert len(HOSTILE) >= 60
    assert len({each.label for each in HOSTILE}) == len(HOSTILE)


@pytest.mark.parametrize("kind", KIND_OF_OPTIONS, ids=lambda kind: kind.__name__)
def test_every_option_has_its_line_in_the_table_of_bounds(kind: type) -> None:
    assert {each.name for each in fields(kind)} - OF_THEIR_OWN <= BOUNDS.keys()


def test_every_option_of_a_manifest_has_its_line_in_the_table_of_bounds() -> None:
    for option in MANIFEST_OPTIONS:
        assert {option.keyword, option.field} - OF_THEIR_OWN <= BOUNDS.keys()


def test_the_words_of_a_misfire_are_those_of_the_model() -> None:
    for option in ("misfire", "misfire_policy"):
        assert all(BOUNDS[option].holds(policy) for policy in MisfirePolicy)
        assert all(policy in BOUNDS[option].expected for policy in MisfirePolicy)


Call: TypeAlias = "tuple[str, str, Callable[[Any], object]]"


def declaring_calls() -> Iterator[Call]:
    """Name every option of every call that declares, with a call that passes a value for it."""
    for option in ("name", *(each.name for each in fields(TrainOptions))):
        yield "train", option, partial(_declare_train, option)
        yield "Train", option, partial(_declare_class, option)
    for door in ("schedule", "schedule_once", "schedule_many", "then"):
        first = "name" if door == "schedule_many" else "external_id"
        for option in (first, *ScheduleKeywords.__annotations__):
            yield door, option, _scheduling(door, option)
    for option in ("at", "delay"):
        yield "schedule_once", option, _scheduling("schedule_once", option)
    yield "schedule_many", "prune_empty", _scheduling("schedule_many", "prune_empty")
    for option in ("on", "dormant", "pass_output"):
        yield "then", option, _scheduling("then", option)
    for option in ("on", "dormant", "prune_empty"):
        yield "then_many", option, _scheduling("then_many", option)
    for option in inspect.signature(Gandy.group).parameters.keys() - {"self"}:
        yield "group", option, partial(_declare_group, option)
    for option in CleanupKeywords.__annotations__.keys() - NOT_A_VALUE:
        yield "cleanup", option, partial(_declare_cleanup, option)
    yield "Gandy", "name", Gandy
    for option in inspect.signature(every).parameters:
        yield "every", option, partial(_declare_rate, option)


def calls_inside_a_run() -> Iterator[Call]:
    """Name what a run says of itself."""
    yield "progress", "done", lambda value: Run().progress(value)
    yield "progress", "total", lambda value: Run().progress(1, value)
    yield "Retry", "after", lambda value: Retry(after=value)
    yield "activate", "external_id", lambda value: Run().activate(value)


def _declare_train(option: str, value: object) -> None:
    given: dict[str, Any] = {option: value}
    Gandy("a").train(**given)(innocent)


def _declare_group(option: str, value: object) -> None:
    given: dict[str, Any] = {"name": "g", option: value}
    Gandy("a").group(**given)


def _declare_cleanup(option: str, value: object) -> None:
    given: dict[str, Any] = {option: value}
    Gandy("a").cleanup(**given)


def _declare_rate(option: str, value: object) -> None:
    given: dict[str, Any] = {option: value}
    every(**given)


def _override(option: str, value: object) -> None:
    given: dict[str, Any] = {option: value}
    override_values(ManifestChanges(**given))


def _declare_class(option: str, value: object) -> None:
    body = {"route": (innocent,), "__orig_bases__": (Train[int, int],), option: value}
    type("Hostile", (Train,), body)


def _scheduling(door: str, option: str) -> Callable[[Any], object]:
    def call(value: object) -> object:
        app = make_app("sqlite://")
        parent = app.schedule("parent", innocent, 1)
        given: dict[str, Any] = {option: value}
        name = given.pop("external_id", given.pop("name", "victim"))
        match door:
            case "schedule":
                return app.schedule(name, innocent, 1, every(hours=1), **given)
            case "schedule_once":
                when = given if given.keys() & {"at", "delay"} else {**given, "delay": every(hours=1).every}
                return app.schedule_once(name, innocent, 1, **when)
            case "schedule_many":
                return app.schedule_many(name, innocent, {"a": 1}, every(hours=1), **given)
            case "then_many":
                return parent.then_many(name, innocent, {"a": 1}, **given)
            case _ if given.get("pass_output") is True:
                return parent.then(name, innocent, **given)
            case _:
                return parent.then(name, innocent, 1, **given)

    return call


OF_INSTANTS = {option.keyword for option in OPTIONS_OF_INSTANTS}


def test_what_declares_refuses_by_name_or_accepts_and_all_doors_agree() -> None:
    judge = Judge()
    answers: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for door, option, call in (*declaring_calls(), *calls_inside_a_run()):
        for hostile in HOSTILE:
            answers[option, hostile.label][door] = judge.call(option, hostile, call)
    for (option, label), doors in answers.items():
        if _differ(option, doors):
            judge.note(option, label, f"the doors differ: {doors}")
    judge.close()
    assert not answers["timeout", "the longest timedelta"]["train"]
    assert answers["timeout", "no timeout"]["schedule"]
    assert answers["retry_delay", "no time"]["train"]


def _differ(option: str, doors: dict[str, bool]) -> bool:
    """Tell whether doors that mean the same by an option answer differently."""
    others = {"every", "cleanup", *(["then"] if option in OF_INSTANTS else [])}  # a dependent has no instants
    alike = {door: taken for door, taken in doors.items() if door not in others}
    return len(set(alike.values())) > 1 and option != "name"


def test_an_override_of_an_operator_gets_the_same_answer_as_a_declaration() -> None:
    judge = Judge()
    for option in {"next_at", *(option.field for option in OVERRIDABLE)} - OF_THEIR_OWN:
        for hostile in HOSTILE:
            taken = judge.call(option, hostile, partial(_override, option))
            judge.expect(option, hostile, is_accepted=taken, should_be=BOUNDS[option].holds(hostile.value))
    judge.close()


async def test_what_is_asked_for_is_refused_by_name_or_accepted_and_then_runs(migrated_url: str) -> None:
    judge = Judge()
    app = make_app(migrated_url)
    async with app:
        await app.seed()
        for hostile in HOSTILE:
            await _schedule(app, hostile, judge)
            await _enqueue(app, hostile, judge)
            await _trigger(app, hostile, judge)
        judge.close()
        await app.tick("manifest-manager")
        await still_works(app)


async def _schedule(app: Gandy, hostile: Hostile, judge: Judge) -> None:
    for option in ("external_id", *(PlacedKeywords.__annotations__.keys() - NOT_A_VALUE)):
        is_good = option in BOUNDS and BOUNDS[option].holds(hostile.value)
        if option == "after" and is_good:
            continue  # a good name that leads nowhere is another error
        base: dict[str, Any] = {"external_id": f"{option}-{HOSTILE.index(hostile)}"}
        if option in {"dormant", "on"}:
            base["after"] = "kept"

        async def add(value: object, option: str = option, base: dict[str, Any] = base) -> None:
            given = {**base, option: value}
            await app.add_schedule(given.pop("external_id"), innocent, 1, **given)

        taken = await judge.wait(option, hostile, add)
        if option in BOUNDS:
            judge.expect(option, hostile, is_accepted=taken, should_be=is_good)


async def _enqueue(app: Gandy, hostile: Hostile, judge: Judge) -> None:
    for option in EnqueueKeywords.__annotations__.keys() - NOT_A_VALUE:
        is_good = BOUNDS[option].holds(hostile.value)
        for enqueue in (_enqueue_one, _enqueue_many):
            taken = await judge.wait(option, hostile, partial(enqueue, app, option))
            judge.expect(option, hostile, is_accepted=taken, should_be=is_good)


async def _enqueue_one(app: Gandy, option: str, value: object) -> None:
    given: dict[str, Any] = {option: value}
    await app.enqueue(innocent, 1, **given)


async def _enqueue_many(app: Gandy, option: str, value: object) -> None:
    given: dict[str, Any] = {option: value}
    await app.enqueue_many(innocent, [1], **given)


async def _trigger(app: Gandy, hostile: Hostile, judge: Judge) -> None:
    taken = await judge.wait("delay", hostile, lambda value: app.trigger("kept", delay=value))
    judge.expect("delay", hostile, is_accepted=taken, should_be=BOUNDS["delay"].holds(hostile.value))
    await judge.wait("external_id", hostile, app.trigger)
    await judge.wait("external_id", hostile, app.remove_schedule)


async def test_waiting_for_a_result_takes_only_a_time_that_can_pass(sqlite_url: str) -> None:
    judge = Judge()
    migrate(sqlite_url)
    async with make_app(sqlite_url) as app:
        job = await app.enqueue(innocent, 1)
        await still_works(app)
        for hostile in HOSTILE:
            taken = await judge.wait("timeout", hostile, lambda value: job.result(timeout=value))
            judge.expect("timeout", hostile, is_accepted=taken, should_be=BOUNDS["wait"].holds(hostile.value))
    judge.close()


async def test_one_bad_input_of_many_is_named_by_its_index_and_none_is_queued(migrated_url: str) -> None:
    inputs: list[Any] = [1, 2, "three", 4]
    async with make_app(migrated_url) as app:
        with pytest.raises(GandyError, match="input at index 2"):
            await app.enqueue_many(innocent, inputs)
        waiting = await QueueDesk(app.database, local_operator("cli"), owners=ALL_OWNERS).list(
            EntryFilter(status="queued")
        )
        assert len(waiting) == 0
