"""The counters of several processes as one."""

from __future__ import annotations

from datetime import timedelta

from prometheus_client import CollectorRegistry, Gauge

from gandy.events import EventBus, RunFinished
from gandy.telemetry.metrics import Metrics
from gandy.telemetry.sums import CounterChanges


def process() -> tuple[EventBus, Metrics]:
    events = EventBus()
    return events, Metrics(events)


def finish(events: EventBus, train: str, seconds: float = 0.2) -> None:
    took = timedelta(seconds=seconds)
    events.emit(RunFinished(run_id=1, train=train, manifest=None, attempt=1, state="completed", took=took))


def test_counters_and_histograms_of_children_are_added_those_of_ended_ones_too() -> None:
    (events, metrics), (one, counted_by_one), (other, counted_by_other) = process(), process(), process()
    finish(events, "send")
    for _ in range(2):
        finish(one, "send")
    finish(other, "send")
    finish(other, "only_there", seconds=2000)
    metrics.children.add(1, CounterChanges([counted_by_one.registry]).take())
    metrics.children.end(1)
    metrics.children.add(2, CounterChanges([counted_by_other.registry]).take())
    text = metrics.exposition().decode()

    assert 'gandy_runs_total{state="completed",train="send"} 4.0' in text
    assert 'gandy_runs_total{state="completed",train="only_there"} 1.0' in text
    assert 'gandy_run_seconds_bucket{le="0.25",train="send"} 4.0' in text
    assert 'gandy_run_seconds_bucket{le="900.0",train="only_there"} 0.0' in text
    assert 'gandy_run_seconds_count{train="only_there"} 1.0' in text


def test_only_what_has_changed_is_sent_and_it_replaces_what_was_sent_before() -> None:
    (_, metrics), (events, counted) = process(), process()
    changes = CounterChanges([counted.registry])
    finish(events, "send")
    metrics.children.add(1, changes.take())
    finish(events, "send")
    second = list(changes.take())
    metrics.children.add(1, second)

    assert list(changes.take()) == []
    assert len(second) < 20
    assert 'gandy_runs_total{state="completed",train="send"} 2.0' in metrics.exposition().decode()


def test_a_gauge_is_not_added() -> None:
    registry = CollectorRegistry()
    Gauge("level", "Not a count", registry=registry).set(3)

    assert list(CounterChanges([registry]).take()) == []
