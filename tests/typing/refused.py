"""Every line marked `refused` must be an error, and no other."""

from __future__ import annotations

from datetime import timedelta

from trains import (
    Close,
    Nightly,
    Other,
    Request,
    app,
    count,
    hourly,
    nightly,
    run_first,
    send,
    send_sync,
    tick,
)

from gandy.errors import JobTimeoutError, RunNotFoundError, TrainDefinitionError


async def running() -> None:
    await Close.run(Other(""))  # refused
    await Close.run()  # refused
    await Nightly.run(Other(""))  # refused
    await Close.outcome(Other(""))  # refused
    Close()  # refused


async def enqueueing() -> None:
    await app.enqueue(Close, Other(""))  # refused
    await app.enqueue(Close)  # refused
    await app.enqueue(Nightly, Other(""))  # refused
    await app.enqueue(send, Other(""))  # refused
    await app.enqueue(send)  # refused
    await app.enqueue(send_sync, Other(""))  # refused
    await app.enqueue(send_sync)  # refused
    await app.enqueue(run_first, Other(""))  # refused
    await app.enqueue(run_first)  # refused
    await app.enqueue(tick, Other(""))  # refused
    await app.enqueue(count, Other(""))  # refused
    await app.enqueue(nightly, Other(""))  # refused


def scheduling() -> None:
    extract = app.schedule("close", Close, Request(1), hourly)
    app.schedule("close", Close, Other(""), hourly)  # refused
    app.schedule("close", Close, hourly)  # refused
    app.schedule("send", send, Other(""), hourly)  # refused
    app.schedule("send", send, schedule=hourly)  # refused
    app.schedule("run-first", run_first, Other(""), hourly)  # refused
    app.schedule("tick", tick, Other(""), hourly)  # refused
    app.schedule("count", count, Other(""), hourly)  # refused
    extract.then("load", send, Other(""))  # refused
    extract.then("load", Close)  # refused
    extract.then("load", send, Other(""), on="failure")  # refused
    extract.then("load", send, Request(1), on="error")  # refused
    extract.then("load", send, Request(1), pass_output=True)  # refused
    extract.then("load", send, Request(1), after=extract)  # refused
    extract.then_many("copy", send, {"a": Other("")})  # refused
    extract.then_many("copy", Close, {"a": Request(1), "b": Other("")}, on="end")  # refused
    extract.then_many("copy", Close, {"a": Request(1)}, options={"a": {"prio": 5}})  # refused
    app.schedule("merge", send, Other(""), after=[extract])  # refused
    app.schedule("merge", send, Request(1), after=[1])  # refused
    app.schedule("merge", send, Request(1), after=extract, on="error")  # refused
    app.schedule_many("sync", send, {"a": Request(1)}, hourly, options={"a": {"prio": 5}})  # refused
    app.schedule_many("sync", Close, {"a": Other("")}, hourly)  # refused
    app.schedule_many("sync", send, {"a": Other("")}, hourly)  # refused
    app.schedule_many("sync", send, {"a": Request(1), "b": Other("")}, hourly)  # refused
    app.schedule_once("once", send, Other(""), delay=timedelta(minutes=5))  # refused
    app.schedule("close", Close, Request(1), hourly, priority="high")  # refused
    app.schedule("close", Close, Request(1), hourly, prio=1)  # refused


async def asking_in_other_ways() -> None:
    await app.enqueue_many(Close, [Other("")])  # refused
    await app.enqueue_many(send, [Request(1), Other("")])  # refused
    await app.run(Close, Other(""))  # refused
    await app.run(send)  # refused
    await app.enqueue(send, Request(1), delay=5)  # refused
    await app.add_schedule("close", Close, Other(""), hourly)  # refused
    await app.add_schedule("close", Close, Other(""), after=["a", "b"])  # refused
    await app.add_schedule("close", Close, Request(1), after="a", on="error")  # refused


def the_sync_face() -> None:
    app.sync.enqueue(Close, Other(""))  # refused
    app.sync.enqueue(send)  # refused
    app.sync.run(send_sync, Other(""))  # refused


async def operating() -> None:
    await app.manifests.disable("a", "why")  # refused
    await app.manifests.show(1)  # refused
    await app.manifests.set("a", enabled=True)  # refused
    await app.manifests.set("a", prio=1)  # refused
    await app.manifests.add("a", send, Request(1))  # refused
    await app.manifests.add("a", send, priority="high")  # refused
    await app.runs.list(state="done")  # refused
    await app.runs.cancel(state="failed")  # refused
    await app.runs.cancel("1")  # refused
    await app.queue.enqueue(send, connection=None)  # refused
    await app.dead_letters.acknowledge(1)  # refused
    await app.groups.set("a", max_active=3)  # refused
    await app.sync.runs.list()  # refused


def operating_on_the_sync_face() -> None:
    app.sync.manifests.trigger("a", delay=5)  # refused
    app.sync.runs.show()  # refused
    app.sync.groups.show("a").disabled  # refused


def errors() -> None:
    RunNotFoundError()  # refused
    RunNotFoundError("seven")  # refused
    RunNotFoundError(job_id=7)  # refused
    TrainDefinitionError("Close", "problem")  # refused
    JobTimeoutError(7, "Close", timedelta(1), "queued")  # refused
    RunNotFoundError(7).job_id  # refused
