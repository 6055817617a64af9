"""Activations: each is kept in order, joined only where it is equal, and named where it cannot be kept."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy import Gandy
from gandy.clock import ManualClock
from gandy.desk.audit import local_operator
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.groups import GroupChanges, GroupDesk
from gandy.desk.manifests import ManifestDesk
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import RunInsights
from gandy.errors import JobFailedError
from gandy.model.owners import ALL_OWNERS, OneOwner
from gandy.store.reading.listings import EntryFilter, LetterFilter, RunFilter
from tests.app.sleepers import DOORS, Plan, Table, app, extract, load, ran

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gandy.desk.entries import EntrySummary
    from gandy.desk.runs import RunDetail

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OWNERS = OneOwner("sleepers")
ME = local_operator("cli")
MOST = 10_000


@pytest.fixture
async def clock(migrated_url: str) -> AsyncIterator[ManualClock]:
    """The open application, under a clock that only the test moves."""
    clock = ManualClock(NOW)
    app.configure({"database": {"url": migrated_url}})
    app.use_clock(clock)
    ran.clear()
    async with app:
        await app.seed()
        yield clock
    app.use_clock(None)


async def work() -> list[str]:
    """Run all that may run, and return everything that ran so far."""
    await app.work(asyncio.Event(), until_idle=True)
    return list(ran)


async def activate(*wanted: tuple[str, Any], parent: str = "parent") -> RunDetail:
    """Run a parent that activates; return its run."""
    job = await app.trigger(parent, input=Plan(list(wanted)))
    await work()
    return await RunInsights(app.database, ALL_OWNERS).show(job.id)


async def entries(status: Any = "undispatched") -> list[EntrySummary]:  # noqa: ANN401 a word of the filter
    desk = QueueDesk(app.database, ME, owners=OWNERS)
    return list(await desk.list(EntryFilter(status=status, limit=1_000)))


async def states() -> dict[str, int]:
    """How many runs of the dependents there are, by state."""
    runs = await RunInsights(app.database, ALL_OWNERS).list(RunFilter(train="load", limit=1_000))
    return {state: sum(run.state == state for run in runs) for state in {run.state for run in runs}}


async def disable(name: str = "child") -> None:
    await ManifestDesk(app.database, ME, owners=OWNERS).disable(name)


async def enable(name: str = "child") -> None:
    await ManifestDesk(app.database, ME, owners=OWNERS).enable(name)


def table(name: str) -> dict[str, Any]:
    return {"name": name}


@pytest.mark.usefixtures("clock")
async def test_each_activation_runs_once_in_the_order_in_which_the_run_asked() -> None:
    names = [f"t{number}" for number in range(20)]

    run = await activate(*(("child", table(name)) for name in names), ("child", "declared"))

    assert run.state == "completed"
    assert ran == [*names, "declared"]
    assert await entries() == []


@pytest.mark.usefixtures("clock")
async def test_activations_of_several_runs_wait_behind_each_other_and_behind_a_run_that_goes_on() -> None:
    await activate(("child-async", table("busy-b-c")), ("child-async", table("a")), parent="parent-async")

    assert ran == ["busy-b-c", "a", "b", "c"]


@pytest.mark.usefixtures("clock")
async def test_an_activation_that_equals_a_waiting_one_is_joined_and_the_run_says_so() -> None:
    await disable()
    first = await activate(("child", table("a")), ("child", table("b")))
    second = await activate(("child", {"rows": 0, "name": "b"}), ("child", table("b")), ("child", table("c")))

    waiting = await entries("waiting")
    lines = await RunInsights(app.database, ALL_OWNERS).logs(second.id)
    assert [each.manifest for each in waiting] == ["child"] * 3
    assert [line.message for line in lines] == [
        f"2 activations of child joined entry {waiting[1].id}, which has an equal input"
    ]
    assert await RunInsights(app.database, ALL_OWNERS).logs(first.id) == ()
    await enable()
    assert await work() == ["a", "b", "c"]


@pytest.mark.usefixtures("clock")
async def test_inputs_that_only_look_equal_are_not_joined() -> None:
    await disable()
    await activate(("child", {"name": "1", "rows": 1}), ("child", {"name": "1", "rows": 2}))

    assert len(await entries("waiting")) == 2


BAD: dict[str, tuple[str, Any, str]] = {
    "unknown id": ("nowhere", "declared", "no manifest of this application has that id"),
    "not dormant": ("awake", "declared", "it is not dormant"),
    "another parent's": ("strangers-child", "declared", "it depends on 'stranger'"),
    "follows nothing": ("manual", "declared", "it depends on nothing"),
    "another application's": ("theirs", "declared", "no manifest of this application has that id"),
    "wrong input": ("child", 7, "should be an instance of Table"),
    "wrong input of a dependent made at run time": ("made", 7, "load"),
}


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("case", BAD)
async def test_an_activation_that_cannot_be_kept_fails_the_run_by_name_and_nothing_is_kept(
    case: str, migrated_url: str
) -> None:
    name, given, word = BAD[case]
    other = Gandy("other", database=migrated_url)
    theirs = other.schedule("theirs-parent", other.train(_idle))
    theirs.then("theirs", _idle, dormant=True)
    async with other:
        await other.seed()
    await app.add_schedule("made", load, Table("x"), after="parent", dormant=True)

    run = await activate(("child", table("good")), (name, given))

    assert (run.state, ran) == ("failed", [])
    assert run.failure_exception == "gandy.errors.train.ActivationError"
    assert f"activate({name!r})" in str(run.failure_reason)
    assert word in str(run.failure_reason)
    assert await entries() == []


async def _idle() -> None:
    """Do nothing."""


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("door", DOORS)
async def test_an_input_is_checked_by_type_where_the_junction_activates(door: str) -> None:
    good = await activate((f"child-{door}", table("good")), parent=f"parent-{door}")
    wrong = await activate((f"child-{door}", "wrong"), parent=f"parent-{door}")

    assert (good.state, ran) == ("completed", ["good"])
    assert (wrong.state, wrong.failure_exception) == ("failed", "gandy.errors.train.ActivationError")
    assert wrong.failure_junction is not None
    assert f"activate('child-{door}')" in str(wrong.failure_reason)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("door", DOORS)
async def test_a_run_that_has_ended_activates_nothing_and_the_call_says_so(door: str) -> None:
    await activate((f"child-{door}", "late"), parent=f"parent-{door}")

    caller = await activate((f"child-{door}", table("a")), parent=f"parent-{door}")

    assert (caller.state, caller.failure_exception) == ("failed", "gandy.errors.train.ActivationError")
    assert f"activate('child-{door}'): the run has ended" in str(caller.failure_reason)
    assert ran == []


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("given", "state"), [(table("good"), "completed"), ("wrong", "failed")])
async def test_a_run_that_another_engine_brings_activates_alike(given: object, state: str) -> None:
    job = await app.trigger("parent", input=Plan([("child", given)]))
    await app.tick("dispatcher")

    assert await app.run_delivered(job.id)

    run = await RunInsights(app.database, ALL_OWNERS).show(job.id)
    assert (run.state, len(await entries())) == (state, int(state == "completed"))


@pytest.mark.usefixtures("clock")
async def test_a_run_without_a_manifest_has_no_dependents_to_activate() -> None:
    with pytest.raises(Exception, match="belongs to no manifest"):
        await app.run(extract, Plan([("child", "declared")]))

    job = await app.enqueue(extract, Plan([("child", "declared")]), retry=False)
    await work()
    with pytest.raises(JobFailedError, match="belongs to no manifest"):
        await job.result(timeout=5)


@pytest.mark.usefixtures("clock")
async def test_at_most_ten_thousand_wait_for_one_dependent() -> None:
    await disable()
    many = [("child", {"name": "t", "rows": number}) for number in range(MOST)]
    assert (await activate(*many)).state == "completed"

    one_more = await activate(("child", table("one more")), ("loose", table("beside it")))
    joined = await activate(("child", {"name": "t", "rows": 7}))

    assert (one_more.state, ran) == ("failed", [])
    assert "at most 10000 entries may wait" in str(one_more.failure_reason)
    assert joined.state == "completed"
    assert (await ManifestDesk(app.database, ME, owners=OWNERS).show("child")).waiting_entries == MOST


GUARDS = ("manifest disabled", "group disabled", "parked")


@pytest.mark.parametrize("guard", GUARDS)
async def test_an_activation_behind_a_guard_is_deferred_and_promoted_when_the_guard_lifts(
    clock: ManualClock, guard: str
) -> None:
    child = "grouped" if guard == "group disabled" else "child"
    before = await _raise(guard, child)

    run = await activate((child, table("a")), (child, table("b")))
    clock.advance(timedelta(hours=1))
    await app.tick("manifest-manager")

    assert (run.state, await work()) == ("completed", before)
    assert [each.status for each in await entries()] == ["waiting", "waiting"]
    await _lift(guard, child)
    assert await work() == [*before, "a", "b"]
    begun = [each for each in await entries("dispatched") if each.manifest == child]
    assert {each.due_at for each in begun} < {NOW + timedelta(microseconds=number) for number in range(9)}


async def _raise(guard: str, child: str) -> list[str]:
    if guard == "manifest disabled":
        await disable(child)
    elif guard == "group disabled":
        await GroupDesk(app.database, ME, owners=OWNERS).set("quiet", GroupChanges(is_enabled=False))
    else:
        await activate((child, table("bad")))
        await app.tick("manifest-manager")
    return list(ran)


async def _lift(guard: str, child: str) -> None:
    if guard == "manifest disabled":
        await enable(child)
    elif guard == "group disabled":
        await GroupDesk(app.database, ME, owners=OWNERS).set("quiet", GroupChanges(is_enabled=True))
    else:
        letters = DeadLetterDesk(app.database, ME, owners=OWNERS)
        (letter,) = await letters.list(LetterFilter())
        await letters.acknowledge([letter.id], "seen")


@pytest.mark.usefixtures("clock")
async def test_a_dependent_that_is_to_be_parked_runs_nothing_more_before_the_manager_has_looked() -> None:
    await activate(("child", table("bad")), ("child", table("a")))

    assert await work() == ["bad"]
    assert [(each.status, each.manifest) for each in await entries()] == [("waiting", "child")]


@pytest.mark.usefixtures("clock")
async def test_without_retries_the_next_follows_a_failure_at_once() -> None:
    await activate(("loose", table("bad")), ("loose", table("a")))

    assert ran == ["bad", "a"]


async def test_a_retry_has_the_place_and_what_waits_keeps_its_input(clock: ManualClock) -> None:
    await activate(("patient", table("flaky")), ("patient", table("a")))
    assert ran == ["flaky"]

    clock.advance(timedelta(minutes=2))

    assert await work() == ["flaky", "flaky", "a"]


async def test_a_retry_of_any_manifest_takes_the_place_of_a_queued_entry_with_another_input(
    clock: ManualClock,
) -> None:
    await app.trigger("manual")
    assert await work() == ["trigger-itself"]
    assert [each.status for each in await entries()] == ["queued", "waiting"]

    clock.advance(timedelta(minutes=2))

    assert await work() == ["trigger-itself", "trigger-itself", "other"]
