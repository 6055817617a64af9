"""What operators do: cancel, resolve, repeat, drain; and what stays in the trail."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.desk import cancelling, dead_letters
from gandy.desk.cancelling import CancelDesk
from gandy.desk.choosing import walks
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.groups import WorkerDesk
from gandy.desk.queue import EnqueueOptions, QueueDesk
from gandy.errors import (
    DeadLetterNotFoundError,
    GroupAmbiguousError,
    GroupNotFoundError,
    MissingInputError,
    PayloadError,
    UnknownTrainError,
    WorkerNotFoundError,
)
from gandy.model.owners import ALL_OWNERS, OneOwner, Operator
from gandy.settings import Settings
from gandy.store.audit import list_deeds
from gandy.store.cancelling import CancelResult
from gandy.store.queueing import EnqueueRequest, enqueue, trigger
from gandy.store.reading.listings import EntryFilter, LetterFilter, RunFilter
from gandy.store.workers import LeaseRenewal, WorkerRegistration, register_worker, renew_lease, stop_worker
from gandy.train.definition import TrainOptions, define_function
from gandy.train.registry import Registry
from tests.support.world import OWNER, OWNERS, WORKER, manifest

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from tests.support.world import World

ADA = Operator("ada", "cli")
LEASE = 9.0


@dataclass
class Invoice:
    """What is sent."""

    n: int


async def send_invoice(invoice: Invoice) -> int:
    return invoice.n


async def tidy_up() -> None:
    """A train without input."""


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.add(define_function(send_invoice, options=TrainOptions(max_retries=2, group="mail")))
    made.add(define_function(tidy_up))
    return made


def cancel_desk(world: World, *, owners: Owners = OWNERS) -> CancelDesk:
    return CancelDesk(world.database, ADA, Settings(), owners=owners)


async def queue(world: World, count: int, *, group: str = "mail", owner: str = OWNER) -> list[int]:
    request = EnqueueRequest(
        owner=owner,
        train="send_invoice",
        inputs=['{"n":1}'] * count,
        input_type_name="Invoice",
        group=group,
        max_retries=1,
    )
    return list((await world.database.run(enqueue(request))).ids)


async def park(world: World, count: int) -> list[int]:
    await queue(world, count)
    assert await world.fail() == count
    return [row["id"] for row in world.rows("SELECT id FROM dead_letter ORDER BY id")]


async def trail(world: World) -> list[tuple[str, str, str]]:
    deeds = (await world.database.read(list_deeds(owners=OWNERS))).rows
    assert {(deed.actor, deed.face) for deed in deeds} <= {("ada", "cli")}
    return [(deed.owner, deed.action, deed.subject) for deed in deeds[::-1]]


async def register(world: World, worker_id: str = WORKER) -> None:
    worker = WorkerRegistration(
        id=worker_id, owner=OWNER, host="here", pid=7, version="1.0", slots=4, trains=["send_invoice"]
    )
    await world.database.run(register_worker(worker, LEASE))


async def test_a_cancelled_run_is_in_the_trail_with_what_became_of_it(world: World) -> None:
    (running,) = await queue(world, 1)
    await world.claim()
    (waiting,) = await queue(world, 1)

    await cancel_desk(world).jobs([running, waiting, 777])

    assert await trail(world) == [(OWNER, "cancel run", f"{running}, {waiting}")]
    (deed,) = (await world.database.read(list_deeds(owners=OWNERS))).rows
    assert json.loads(deed.detail) == {"cancelled": [waiting], "asked": [running]}


async def test_many_cancelled_at_once_are_one_line_of_the_trail_with_their_ids(world: World) -> None:
    ids = await queue(world, 12)

    result = await cancel_desk(world).entries((), EntryFilter(train="send_invoice", group="mail"))

    assert sorted(result.cancelled) == ids
    assert await trail(world) == [(OWNER, "cancel run", "12 jobs")]
    (deed,) = (await world.database.read(list_deeds(owners=OWNERS))).rows
    assert sorted(json.loads(deed.detail)["cancelled"]) == ids


async def test_a_filter_reaches_beyond_the_first_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "AT_ONCE", 2)
    monkeypatch.setattr(cancelling, "AT_ONCE", 2)
    ids = await queue(world, 5)
    told: list[int] = []

    result = await cancel_desk(world).entries(
        (), EntryFilter(group="mail"), lambda total: told.append(len(total.cancelled))
    )

    assert result.cancelled == tuple(ids[::-1])
    assert told == [2, 4, 5]


async def test_runs_that_wait_and_runs_that_are_executed_are_found_by_their_train(world: World) -> None:
    (running,) = await queue(world, 1)
    await world.claim()
    (pending,) = await queue(world, 1)
    await world.claim(worker_id=None)
    other = RunFilter(train="another")
    desk = cancel_desk(world)

    with pytest.raises(UnknownTrainError):
        await desk.find_runs(other)
    assert set(await desk.find_runs(RunFilter(train="send_invoice"))) == {running, pending}
    result = await desk.runs((), RunFilter(train="send_invoice"))

    assert (result.cancelled, result.asked) == ((pending,), (running,))


async def test_what_cancels_nothing_leaves_no_trail(world: World) -> None:
    result = await cancel_desk(world).jobs([777])

    assert result.unknown == (777,)
    assert await trail(world) == []


async def test_a_manifest_is_cancelled_as_a_whole(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    (run,) = await world.claim()
    waiting = await world.database.run(trigger("report", owner=OWNER))

    result = await cancel_desk(world).manifest("report")

    assert (result.cancelled, result.asked) == ((waiting.id,), (run.id,))
    assert await trail(world) == [(OWNER, "cancel manifest", "report")]


async def test_a_manifest_that_does_nothing_has_nothing_to_cancel(world: World) -> None:
    await world.seed(manifest())

    assert await cancel_desk(world).manifest("report") == CancelResult()


async def test_a_group_is_cancelled_in_parts_and_other_groups_are_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "AT_ONCE", 2)
    monkeypatch.setattr(cancelling, "AT_ONCE", 2)
    ids = await queue(world, 5)
    spared = await queue(world, 1, group="other")
    told: list[int] = []

    result = await cancel_desk(world).group("mail", lambda total: told.append(len(total.cancelled)))

    assert list(result.cancelled) == ids
    assert told == [2, 4, 5]
    assert [run.id for run in await world.claim()] == spared
    assert await trail(world) == [(OWNER, "cancel group", "mail")] * 3


async def test_a_group_that_several_applications_have_must_be_told_apart(world: World) -> None:
    await queue(world, 1)
    await queue(world, 1, owner="bakery")

    with pytest.raises(GroupAmbiguousError, match="bakery and shop"):
        await cancel_desk(world, owners=ALL_OWNERS).group("mail")
    with pytest.raises(GroupNotFoundError):
        await cancel_desk(world).group("nothing")
    assert len((await cancel_desk(world, owners=OneOwner("bakery")).group("mail")).cancelled) == 1


async def test_all_letters_are_requeued_in_parts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "AT_ONCE", 2)
    monkeypatch.setattr(dead_letters, "AT_ONCE", 2)
    letters = await park(world, 5)
    desk = DeadLetterDesk(world.database, ADA, owners=OWNERS)
    told: list[int] = []
    assert (await desk.preview(LetterFilter())).jobs == 5

    result = await desk.requeue_all(LetterFilter(), progress=told.append)

    assert [done.letter_id for done in result.requeued] == letters
    assert told == [2, 4, 5]
    assert len(await world.claim()) == 5


async def test_all_letters_of_another_application_are_left_alone(world: World) -> None:
    await park(world, 1)
    bakery = DeadLetterDesk(world.database, ADA, owners=OneOwner("bakery"))
    desk = DeadLetterDesk(world.database, ADA, owners=OWNERS)

    assert (await bakery.requeue_all(LetterFilter())).requeued == ()
    with pytest.raises(UnknownTrainError):
        await desk.acknowledge_all(LetterFilter(train="Other"), "no")
    assert len((await desk.acknowledge_all(LetterFilter(train="send_invoice"), "no")).acknowledged) == 1


async def test_an_edited_input_is_checked_by_the_type_of_the_train(world: World, registry: Registry) -> None:
    (letter,) = await park(world, 1)
    desk = DeadLetterDesk(world.database, ADA, registry=registry, owners=OWNERS)

    with pytest.raises(PayloadError, match="n"):
        await desk.requeue([letter], input_json='{"n":"many"}')

    assert (await desk.show(letter)).status == "awaiting_intervention"
    assert len((await desk.requeue([letter], input_json='{"n":3}')).requeued) == 1


async def test_a_letter_that_is_not_there_is_named(world: World) -> None:
    with pytest.raises(DeadLetterNotFoundError, match="777"):
        await DeadLetterDesk(world.database, ADA, owners=OWNERS).show(777)


async def test_a_job_is_queued_under_the_options_of_its_train_and_of_the_asker(
    world: World, registry: Registry
) -> None:
    desk = QueueDesk(world.database, ADA, owners=OWNERS)
    options = EnqueueOptions(priority=9, delay=timedelta(minutes=5), unique_for=timedelta(hours=1))

    job = await desk.enqueue("send_invoice", '{"n": 3}', options, registry=registry)
    same = await desk.enqueue("send_invoice", '{"n":3}', options, registry=registry)

    assert (job.is_new, same.is_new, same.id) == (True, False, job.id)
    (entry,) = await desk.list(EntryFilter())
    assert (entry.id, entry.group, entry.priority, entry.gate, entry.origin) == (
        job.id,
        "mail",
        9,
        "time",
        "ad_hoc",
    )
    assert await trail(world) == [(OWNER, "enqueue", "send_invoice")] * 2


async def test_what_no_train_would_take_is_not_queued(world: World, registry: Registry) -> None:
    desk = QueueDesk(world.database, ADA, owners=OWNERS)
    options = EnqueueOptions()

    with pytest.raises(UnknownTrainError):
        await desk.enqueue("send_invoise", "{}", options, registry=registry)
    with pytest.raises(PayloadError):
        await desk.enqueue("send_invoice", "{}", options, registry=registry)
    with pytest.raises(MissingInputError):
        await desk.enqueue("send_invoice", None, options, registry=registry)
    assert (await desk.enqueue("tidy_up", None, options, registry=registry)).is_new
    assert len(await desk.list(EntryFilter())) == 1


async def test_the_queue_is_listed_by_pages_and_filters(world: World) -> None:
    first = await queue(world, 3)
    (other,) = await queue(world, 1, group="other")
    await cancel_desk(world).jobs([first[0]])
    desk = QueueDesk(world.database, ADA, owners=OWNERS)

    page = await desk.list(EntryFilter(status="queued", limit=2))
    rest = await desk.list(EntryFilter(status="queued", before=page[-1].id))

    assert [entry.id for entry in (*page, *rest)] == [other, first[2], first[1]]
    assert [entry.id for entry in await desk.list(EntryFilter(group="other"))] == [other]
    assert [entry.gate for entry in await desk.list(EntryFilter(status="cancelled"))] == [None]
    assert len(await desk.list(EntryFilter(gate="open"))) == 3
    assert await desk.list(EntryFilter(gate="train")) == ()
    assert await desk.list(EntryFilter(train="Other")) == ()


async def test_a_repeated_run_is_checked_and_kept_in_the_trail(world: World, registry: Registry) -> None:
    await queue(world, 1)
    (run,) = await world.claim()
    await world.finish(run)
    desk = QueueDesk(world.database, ADA, owners=OWNERS)

    with pytest.raises(PayloadError):
        await desk.rerun(run.id, input_json='{"n":"x"}', registry=registry)
    again = await desk.rerun(run.id, input_json='{"n":2}', registry=registry)

    (copy,) = await world.claim()
    assert (copy.id, copy.input_json) == (again.id, '{"n":2}')
    assert await trail(world) == [(OWNER, "rerun", str(run.id))]


async def test_workers_are_listed_with_their_load_and_how_long_they_have_been_silent(world: World) -> None:
    await register(world)
    await register(world, "worker-2")
    world.advance(seconds=3)
    await world.database.run(
        renew_lease(
            LeaseRenewal(id=WORKER, lease_seconds=LEASE, busy=2, stall_seconds=1.5, stalled_junction="crunch")
        )
    )
    await world.database.run(stop_worker("worker-2"))
    world.advance(seconds=2)

    alive, gone = await WorkerDesk(world.database, ADA, owners=OWNERS).list()

    if alive.id != WORKER:
        alive, gone = gone, alive
    assert (alive.is_alive, alive.busy, alive.slots, alive.trains) == (True, 2, 4, ("send_invoice",))
    assert (alive.silent_for, alive.lease_left) == (timedelta(seconds=2), timedelta(seconds=7))
    assert (alive.longest_stall, alive.stalled_junction) == (timedelta(seconds=1.5), "crunch")
    assert (gone.is_alive, gone.state, gone.lease_left) == (False, "stopped", None)
    only = await WorkerDesk(world.database, ADA, owners=OWNERS).list(is_alive=True)
    assert [worker.id for worker in only] == [WORKER]


async def test_a_drained_worker_is_told_with_its_next_sign_of_life(world: World) -> None:
    await register(world)

    await WorkerDesk(world.database, ADA, owners=OWNERS).drain(WORKER)

    renewal = LeaseRenewal(id=WORKER, lease_seconds=LEASE, busy=0)
    assert await world.database.run(renew_lease(renewal)) == "draining"
    assert await trail(world) == [(OWNER, "drain worker", WORKER)]
    with pytest.raises(WorkerNotFoundError, match="nobody"):
        await WorkerDesk(world.database, ADA, owners=OWNERS).drain("nobody")
