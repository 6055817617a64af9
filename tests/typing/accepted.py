"""Every line here must type-check."""

from __future__ import annotations

from typing import assert_type

from fake_app import Job, Scheduled
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

from gandy.model.outcome import Cancelled, Completed, Failed
from gandy.train.inside.run import Run


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
    app.schedule_many("sync", Close, {"a": Request(1), "b": UrgentRequest(2)}, hourly)
    app.schedule_many("sync", send, {"a": Request(1)}, hourly)
