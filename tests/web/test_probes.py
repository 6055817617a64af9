from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.events import CycleEnded, EventBus, RunFinished
from gandy.telemetry.metrics import MOST_VALUES, OTHER, Metrics
from gandy.telemetry.observing import SILENT_AFTER, LoopWatch
from tests.web.shop import Parcel, send_parcel

if TYPE_CHECKING:
    import httpx

    from gandy import Gandy

SPAN = timedelta(seconds=1)


def cycle(service: str = "dispatcher", *, error: str | None = None) -> CycleEnded:
    return CycleEnded(
        service=service,
        verdict="failed" if error else "worked",
        took=SPAN,
        counts={"dispatched": 3},
        error=error,
    )


def finished(train: str) -> RunFinished:
    return RunFinished(run_id=1, train=train, manifest=None, attempt=1, state="completed", took=SPAN)


async def test_the_series_of_the_application_are_served(client: httpx.AsyncClient, shop: Gandy) -> None:
    shop.events.emit(finished("send_parcel"))
    await shop.enqueue(send_parcel, Parcel(address="Bergen"))
    text = (await client.get("/metrics")).text

    assert 'gandy_runs_total{state="completed",train="send_parcel"} 1.0' in text
    assert 'gandy_queue_entries{gate="open"} 1.0' in text
    assert 'gandy_queue_entries{gate="time"} 2.0' in text
    assert "gandy_dead_letters_awaiting 2.0" in text
    assert 'lifecycle_tick_errors_total{scheduler="gandy"} ' in text
    assert 'lifecycle_prune_rows_total{scheduler="gandy",table="metadata"} ' in text


async def test_a_process_is_alive_and_ready(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).text == "ok"
    assert (await client.get("/readyz")).json() == {"ready": True, "problems": []}


async def test_a_loop_that_fails_makes_the_process_not_ready(client: httpx.AsyncClient, shop: Gandy) -> None:
    shop.events.emit(cycle(error="no such table"))
    failing = await client.get("/readyz")
    shop.events.emit(cycle())
    mended = await client.get("/readyz")

    assert failing.status_code == 503
    assert failing.json()["problems"] == ["the last cycle of dispatcher failed"]
    assert mended.status_code == 200


def test_a_loop_that_went_silent_is_a_problem() -> None:
    now = 0.0
    events = EventBus()
    watch = LoopWatch(events, now=lambda: now)
    events.emit(cycle())
    assert watch.problems() == ()
    now = SILENT_AFTER.total_seconds() + 1

    assert watch.problems() == ("dispatcher has not completed a cycle lately",)


def test_a_label_has_only_so_many_values() -> None:
    events = EventBus()
    metrics = Metrics(events)
    for number in range(MOST_VALUES + 50):
        events.emit(finished(f"train-{number}"))
    text = metrics.exposition().decode()

    assert f'gandy_runs_total{{state="completed",train="{OTHER}"}} 50.0' in text
    assert text.count("gandy_runs_total{") == MOST_VALUES + 1


def test_what_cycles_did_is_counted_by_their_own_words() -> None:
    events = EventBus()
    metrics = Metrics(events)
    events.emit(cycle())

    text = metrics.exposition().decode()
    assert 'gandy_cycle_items_total{service="dispatcher",what="dispatched"} 3.0' in text
    assert 'gandy_cycles_total{service="dispatcher",verdict="worked"} 1.0' in text
