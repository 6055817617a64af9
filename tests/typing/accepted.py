"""Every line here must type-check."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from trains import (
    Close,
    Mailer,
    Nightly,
    Receipt,
    Request,
    UrgentRequest,
    app,
    count,
    hourly,
    nightly,
    run_first,
    send,
    send_sync,
    tick,
)

from gandy import NO_TIMEOUT, GandyError, Job
from gandy.app.keywords import Scheduled
from gandy.app.sync import SyncJob
from gandy.desk.audit import Listed
from gandy.desk.groups import GroupSummary
from gandy.desk.manifests import ManifestDetail, ManifestSummary
from gandy.desk.queue import QueuedJob
from gandy.desk.runs import RunDetail, RunSummary
from gandy.desk.schedules import PreviewedInstant
from gandy.errors import (
    DatabaseRefusedError,
    JobTimeoutError,
    RowBusyError,
    RunNotFoundError,
    UnknownHookError,
)
from gandy.model.run import Cancelled, Completed, Failed
from gandy.store.cancelling import CancelResult
from gandy.store.letters import AcknowledgeResult, RequeueResult
from gandy.store.queueing import RemovedManifest, Triggered
from gandy.train.run import Run


async def functions_stay_what_they_were() -> None:
    assert_type(await send(Request(1), Run(), Mailer()), Receipt)
    assert_type(send_sync(Request(1), Mailer()), Receipt)
    assert_type(count(), int)


async def trains_run_without_an_app() -> None:
    assert_type(await Close.run(Request(1)), Receipt)
    assert_type(await Close.run(UrgentRequest(1), provide={Mailer: Mailer()}), Receipt)
    assert_type(await Nightly.run(), Receipt)
    outcome = await Close.outcome(Request(1))
    match outcome:
        case Completed():
            assert_type(outcome.value, Receipt)
        case Failed() | Cancelled():
            print(outcome.reason)


async def jobs_know_their_result() -> None:
    assert_type(await app.enqueue(Close, Request(1)), Job[Receipt])
    assert_type(await app.enqueue(Close, UrgentRequest(1), priority=3), Job[Receipt])
    assert_type(await app.enqueue(Nightly), Job[Receipt])
    assert_type(await app.enqueue(send, Request(1)), Job[Receipt])
    assert_type(await app.enqueue(send, UrgentRequest(1)), Job[Receipt])
    assert_type(await app.enqueue(send_sync, Request(1)), Job[Receipt])
    assert_type(await app.enqueue(run_first, Request(1)), Job[Receipt])
    assert_type(await app.enqueue(tick), Job[int])
    assert_type(await app.enqueue(count), Job[int])
    assert_type(await app.enqueue(nightly), Job[str])


def schedules_take_the_input_of_their_train() -> None:
    extract = app.schedule("close", Close, Request(1), hourly)
    assert_type(extract, Scheduled)
    app.schedule("send", send, Request(1), hourly)
    app.schedule("send-sync", send_sync, input=UrgentRequest(1), schedule=hourly)
    app.schedule("run-first", run_first, Request(1), hourly)
    app.schedule("nightly", Nightly, hourly)
    app.schedule("tick", tick, schedule=hourly)
    app.schedule("count", count, hourly)
    app.schedule("nightly-function", nightly, hourly)
    extract.then("load", send, Request(1)).then("tick", tick).then("delta", Close, Request(1), dormant=True)
    merge = app.schedule("merge", send, Request(1), after=[extract, "by-id"], on="end")
    app.schedule("one", Nightly, after=extract, on="failure")
    extract.then("alarm", send, Request(1), on="failure")
    extract.then("index", Close, pass_output=True)
    merge.then("index-too", send, pass_output=True, priority=3)
    app.schedule("index-three", run_first, after="close", pass_output=True)
    copies = extract.then_many(
        "copy", Close, {"a": UrgentRequest(1)}, on="end", options={"a": {"priority": 5}}
    )
    assert_type(copies["a"], Scheduled)
    app.schedule("all", tick, after=copies)
    app.schedule_many(
        "sync", send, {"a": Request(1)}, hourly, options={"a": {"priority": 5}}, prune_empty=True
    )
    app.schedule_many("sync", Close, {"a": Request(1), "b": UrgentRequest(2)}, hourly)
    app.schedule_many("sync", send, {"a": Request(1)}, hourly)
    app.schedule("manual", Close, Request(1))
    app.schedule("urgent", Close, UrgentRequest(1), hourly)
    extract.then("urgent-too", Close, UrgentRequest(1))
    app.schedule_once("once", send, Request(1), delay=timedelta(minutes=5))
    app.schedule_once("once-tick", tick, delay=timedelta(minutes=5))


async def many_jobs_know_their_result() -> None:
    assert_type(await app.enqueue_many(Close, [Request(1), UrgentRequest(2)]), list[Job[Receipt]])
    assert_type(await app.enqueue_many(send, (Request(number) for number in range(3))), list[Job[Receipt]])
    assert_type(await app.enqueue_many(send_sync, [Request(1)]), list[Job[Receipt]])
    assert_type(await app.enqueue_many(run_first, [Request(1)]), list[Job[Receipt]])


async def runs_with_a_record_return_the_output() -> None:
    assert_type(await app.run(Close, Request(1)), Receipt)
    assert_type(await app.run(Nightly), Receipt)
    assert_type(await app.run(send, Request(1)), Receipt)
    assert_type(await app.run(send_sync, Request(1)), Receipt)
    assert_type(await app.run(run_first, Request(1)), Receipt)
    assert_type(await app.run(count), int)


async def schedules_can_be_added_at_run_time() -> None:
    await app.add_schedule("close", Close, Request(1), hourly)
    await app.add_schedule("load", send, Request(1), after="close", dormant=True)
    await app.add_schedule("tick", tick, hourly)


def the_sync_face_is_typed_alike() -> None:
    with app as sync:
        assert_type(sync.enqueue(Close, Request(1), unique_for=timedelta(hours=1)), SyncJob[Receipt])
        assert_type(sync.enqueue(tick), SyncJob[int])
        assert_type(sync.enqueue(send, Request(1)).result(timeout=3), Receipt)
        assert_type(sync.enqueue_many(send, [Request(1)]), list[SyncJob[Receipt]])
        assert_type(sync.run(send_sync, Request(1)), Receipt)
        assert_type(sync.run(nightly), str)
    app.sync.add_schedule("close", Close, Request(1), hourly)


async def operators_verbs_know_their_results() -> None:
    assert_type(await app.manifests.list(prefix="a", train=send, enabled=True), Listed[ManifestSummary])
    assert_type(await app.manifests.show("a"), ManifestDetail)
    assert_type(
        await app.manifests.add("a", Close, hourly, input=Request(1), after=None, priority=3), ManifestDetail
    )
    assert_type(await app.manifests.set("a", schedule=hourly, timeout=NO_TIMEOUT), ManifestDetail)
    assert_type(await app.manifests.disable("a", reason="why", as_operator="ada"), ManifestDetail)
    assert_type(await app.manifests.trigger("a", delay=timedelta(1)), Triggered)
    assert_type(await app.manifests.remove("a"), RemovedManifest)
    assert_type(await app.manifests.preview("a", count=3), tuple[PreviewedInstant, ...])
    assert_type(await app.groups.set("a", max_active_jobs=3), GroupSummary)
    assert_type(await app.groups.preview_trigger("a"), tuple[str, ...])
    assert_type(await app.runs.cancel(1, 2), CancelResult)
    assert_type(await app.runs.preview_cancel(state="in_progress"), Listed[int])
    assert_type(await app.queue.enqueue(send, Request(1), delay=timedelta(1)), QueuedJob)
    assert_type(await app.dead_letters.requeue(all=True, train="send"), RequeueResult)


def operators_verbs_block_on_the_sync_face() -> None:
    assert_type(app.sync.runs.show(1), RunDetail)
    with app as sync:
        assert_type(sync.manifests.disable("a", reason="why"), ManifestDetail)
        assert_type(sync.runs.list(state="failed", limit=3), Listed[RunSummary])
        assert_type(sync.queue.cancel(train=send, gate="time"), CancelResult)
        assert_type(sync.dead_letters.acknowledge(1, 2, note="seen"), AcknowledgeResult)
        assert_type(sync.groups.list(), tuple[GroupSummary, ...])


class PaymentError(GandyError):
    pass


def errors_take_and_have_their_fields() -> None:
    assert_type(RunNotFoundError(7).run_id, int)
    assert_type(RowBusyError("locked").problem, str)
    assert_type(DatabaseRefusedError("no table").remedy, str)
    assert_type(JobTimeoutError(7, "Close", waited=timedelta(1), state="queued").waited, timedelta)
    assert_type(UnknownHookError(name="ended", known=()).known, tuple[str, ...])
    PaymentError("no money", 3)
