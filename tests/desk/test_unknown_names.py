"""Names in filters that nothing has: lists say so, and verbs that change many jobs refuse them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.desk.cancelling import CancelDesk
from gandy.desk.choosing.names import sentence_of
from gandy.desk.choosing.rerunning import RerunDesk
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import RunInsights
from gandy.desk.stats import StatsDesk
from gandy.errors import GandyError, GroupNotFoundError, ManifestNotFoundError, UnknownTrainError
from gandy.model.owners import Operator
from gandy.settings import Settings
from gandy.store.queueing import EnqueueRequest, enqueue
from gandy.store.reading.listings import EntryFilter, LetterFilter, RunFilter
from tests.support.history import Past
from tests.support.statements import statements
from tests.support.world import OWNER, OWNERS, manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from gandy.store.statements import Step
    from tests.support.world import World

__all__ = ["statements"]

ADA = Operator("ada", "cli")
UNKNOWN: list[tuple[dict[str, str], type[GandyError], str]] = [
    ({"train": "wrok"}, UnknownTrainError, "work"),
    ({"group": "elt"}, GroupNotFoundError, "etl"),
    ({"manifest": "nigtly"}, ManifestNotFoundError, "nightly"),
]


@pytest.fixture
async def seeded(world: World) -> World:
    """One manifest with a group, and a worker that knows its train."""
    await world.seed(manifest("nightly", train="work", group="etl"))
    world.know_worker("w")
    trains = '["work"]' if world.database.dialect == "sqlite" else "{work}"
    world.rows("UPDATE worker SET trains = ?", trains)
    return world


def lists(world: World) -> list[Callable[..., Coroutine[Any, Any, Any]]]:
    async def runs(**given: Any) -> Any:  # noqa: ANN401 any filter
        return await RunInsights(world.database, OWNERS).list(RunFilter(**given))

    async def runs_of_the_application(**given: Any) -> Any:  # noqa: ANN401
        return await RunInsights(world.database, OWNERS).list(RunFilter(**given), with_own=False)

    async def entries(**given: Any) -> Any:  # noqa: ANN401
        return await QueueDesk(world.database, ADA, owners=OWNERS).list(EntryFilter(**given))

    async def letters(**given: Any) -> Any:  # noqa: ANN401
        return await DeadLetterDesk(world.database, ADA, owners=OWNERS).list(LetterFilter(**given))

    return [runs, runs_of_the_application, entries, letters]


def verbs(world: World) -> list[Callable[..., Coroutine[Any, Any, Any]]]:
    cancel = CancelDesk(world.database, ADA, Settings(), owners=OWNERS)
    rerun = RerunDesk(world.database, ADA, owners=OWNERS)
    letters = DeadLetterDesk(world.database, ADA, owners=OWNERS)
    return [
        lambda **given: cancel.runs((), RunFilter(**given)),
        lambda **given: cancel.preview_runs(RunFilter(**given)),
        lambda **given: cancel.find_runs(RunFilter(**given)),
        lambda **given: cancel.entries((), EntryFilter(**given)),
        lambda **given: cancel.preview_entries(EntryFilter(**given)),
        lambda **given: rerun.runs((), RunFilter(**given)),
        lambda **given: rerun.preview(RunFilter(**given)),
        lambda **given: letters.requeue_all(LetterFilter(**given)),
        lambda **given: letters.requeue_all(LetterFilter(error_has="x", **given)),
        lambda **given: letters.acknowledge_all(LetterFilter(**given), "done"),
        lambda **given: letters.preview(LetterFilter(**given)),
    ]


@pytest.mark.parametrize(("given", "kind", "similar"), UNKNOWN)
async def test_a_list_for_a_name_that_nothing_has_says_so_with_a_similar_one(
    seeded: World, given: dict[str, str], kind: type[GandyError], similar: str
) -> None:
    for read in lists(seeded):
        found = await read(**given)

        assert (list(found), found.next, found.is_cut) == ([], None, False)
        assert isinstance(found.unknown, kind)
        assert f"did you mean {similar}" in sentence_of(found.unknown)


@pytest.mark.parametrize(("given", "kind", "similar"), UNKNOWN)
async def test_a_verb_for_many_jobs_refuses_a_name_that_nothing_has(
    seeded: World, given: dict[str, str], kind: type[GandyError], similar: str
) -> None:
    for call in verbs(seeded):
        with pytest.raises(kind) as caught:
            await call(**given)

        assert similar in sentence_of(caught.value)


@pytest.mark.parametrize("given", [{"train": "work"}, {"group": "etl"}, {"manifest": "nightly"}])
async def test_a_known_name_without_rows_is_no_mistake(seeded: World, given: dict[str, str]) -> None:
    for read in lists(seeded):
        assert (await read(**given)).unknown is None
    for call in verbs(seeded):
        await call(**given)


async def test_a_train_is_known_by_its_rows_alone(world: World) -> None:
    request = EnqueueRequest(owner=OWNER, train="queued", inputs=["{}"], input_type_name="dict")
    await world.database.run(enqueue(request))
    past = Past(world)
    past.run("ran")
    past.letter(status="acknowledged", train_name="parked", resolved_at=world.clock.now)
    past.run("theirs", owner="bakery")

    for train in ("queued", "ran", "parked"):
        for read in lists(world):
            assert (await read(train=train)).unknown is None, train
    for read in lists(world):
        assert isinstance((await read(train="theirs")).unknown, UnknownTrainError)


async def test_an_unknown_group_is_not_walked(seeded: World, statements: list[Step]) -> None:
    for read in lists(seeded):
        statements.clear()

        await read(group="elt")

        assert not [step.name for step in statements if step.name.startswith(("search_", "gather_"))]


async def test_statistics_of_a_train_that_nothing_has_say_so(seeded: World) -> None:
    desk = StatsDesk(seeded.database, OWNERS)

    for found in (await desk.trains(train="WROK"), await desk.manifests(timedelta(hours=1), train="WROK")):
        assert not found
        assert found.unknown is not None
        assert "did you mean work?" in sentence_of(found.unknown)
    assert (await desk.trains(train="work")).unknown is None
    assert (await desk.trains()).unknown is None


@pytest.mark.parametrize(("wanted", "error", "similar"), UNKNOWN)
async def test_a_name_in_another_case_is_similar(
    seeded: World, wanted: dict[str, str], error: type[GandyError], similar: str
) -> None:
    for read in lists(seeded):
        found = await read(**{key: similar.upper() for key in wanted})
        assert isinstance(found.unknown, error)
        assert f"did you mean {similar}?" in sentence_of(found.unknown)
