from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from threading import Barrier, BrokenBarrierError, Event
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    expires,
    keep_last,
    older_than,
    plan,
    run_contracts,
    terminal,
)
from gandy.lifecycle.database.target import open_target
from gandy.lifecycle.state.lease import LEASE_FOR, take_lease
from gandy.lifecycle.state.setup import ensure_tables
from gandy.lifecycle.supervisor import report as reporting
from gandy.lifecycle.supervisor.report import PrometheusMetrics, process_metrics
from gandy.lifecycle.supervisor.tick import keep_contracts
from gandy.sweep import Budget
from tests.lifecycle.ground import NOW, ago, steps_of

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule
    from tests.lifecycle.ground import Ground

EVENTS = Table("event", [older_than("at", keep_for="1h")])
MANY = 12_000


def make_events(ground: Ground, rows: int) -> None:
    ground.run(
        "CREATE TABLE event (id {key}, status text, at {instant})",
        "CREATE INDEX by_age ON event (at)",
        "CREATE INDEX by_status ON event (status, at)",
    )
    if rows:
        ground.fill("event", [(n, "done", ago(minutes=n)) for n in range(rows)])


def test_every_series_exists_from_the_start_at_zero(ground: Ground) -> None:
    make_events(ground, 0)
    registry = CollectorRegistry()

    ground.sweep(EVENTS, by=SweepOptions(metrics=PrometheusMetrics(registry)))

    text = generate_latest(registry).decode()
    assert 'lifecycle_prune_rows_total{scheduler="app",table="event"} 0.0' in text
    assert 'lifecycle_tick_errors_total{scheduler="app"} 0.0' in text


def test_a_tick_that_prunes_says_so_and_counts(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    make_events(ground, 100)
    registry = CollectorRegistry()

    with caplog.at_level(logging.INFO, "gandy.lifecycle"):
        ground.sweep(EVENTS, by=SweepOptions(metrics=PrometheusMetrics(registry)), name="statestore")

    [record] = caplog.records
    name, fields = record.getMessage().split(" ", 1)
    assert name == "statestore.lifecycle_pruned"
    assert json.loads(fields) == {"tables": {"event": 40}}
    labels = {"scheduler": "statestore", "table": "event"}
    assert registry.get_sample_value("lifecycle_prune_rows_total", labels) == 40.0


def test_a_tick_that_finds_nothing_says_nothing(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    make_events(ground, 10)

    with caplog.at_level(logging.INFO, "gandy.lifecycle"):
        ground.sweep(EVENTS)

    assert caplog.records == []


def test_a_rule_that_fails_is_told_and_counted_and_the_others_run(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    make_events(ground, 100)
    registry = CollectorRegistry()

    report = ground.sweep(
        Table("missing", [expires("at")]), EVENTS, by=SweepOptions(metrics=PrometheusMetrics(registry))
    )

    assert report.counts == {"event": 40}
    [failed] = [record for record in caplog.records if record.levelno == logging.ERROR]
    name, fields = failed.getMessage().split(" ", 1)
    assert name == "app.lifecycle_tick_failed"
    assert json.loads(fields)["rule"] == "expires at"
    assert registry.get_sample_value("lifecycle_tick_errors_total", {"scheduler": "app"}) == 1.0


def test_a_database_that_cannot_be_reached_is_a_failed_tick(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    by = SweepOptions(metrics=PrometheusMetrics(registry))

    [report] = run_contracts([Contract("app", [EVENTS])], "postgresql://nobody@127.0.0.1:1/none", options=by)

    assert "cannot reach the database" in report.failures[0].error
    assert "app.lifecycle_tick_failed" in caplog.text
    assert registry.get_sample_value("lifecycle_tick_errors_total", {"scheduler": "app"}) == 1.0


def test_rows_of_a_batch_that_was_rolled_back_are_not_counted(postgres: Ground) -> None:
    make_events(postgres, 100)
    postgres.run(
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF OLD.id = 70 THEN RAISE EXCEPTION 'no'; END IF; RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER late AFTER DELETE ON event DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION late()",
    )
    registry = CollectorRegistry()

    events = replace(EVENTS, triggers=["late"])
    report = postgres.sweep(events, by=SweepOptions(metrics=PrometheusMetrics(registry)))

    labels = {"scheduler": "app", "table": "event"}
    assert report.counts == {"event": 39}
    assert registry.get_sample_value("lifecycle_prune_rows_total", labels) == 39.0


def test_a_replica_without_the_lease_skips_and_counts_that(ground: Ground) -> None:
    make_events(ground, 100)
    registry = CollectorRegistry()
    clock = ManualClock(NOW)
    with open_target(ground.url, clock=clock) as session:
        ensure_tables(session)
        assert take_lease(session, "app") is not None
        skipped = ground.sweep(EVENTS, by=SweepOptions(metrics=PrometheusMetrics(registry)))
        later = ground.sweep(EVENTS, now=NOW + LEASE_FOR)

    assert (skipped.is_skipped, skipped.deleted) == (True, 0)
    assert registry.get_sample_value("gandy_lifecycle_ticks_skipped_total", {"scheduler": "app"}) == 1.0
    assert (later.is_skipped, later.deleted) == (False, 40)


def test_two_contracts_do_not_wait_for_each_other(ground: Ground) -> None:
    make_events(ground, 100)
    with open_target(ground.url, clock=ManualClock(NOW)) as session:
        ensure_tables(session)
        assert take_lease(session, "other") is not None

        assert not ground.sweep(EVENTS).is_skipped


def test_a_budget_of_rows_is_shared_and_what_one_rule_leaves_goes_to_the_next(ground: Ground) -> None:
    make_events(ground, 200)
    ground.run("CREATE TABLE small (id {key}, at {instant})")
    ground.fill("small", [(n, ago(days=1)) for n in range(5)])
    contract = Contract(
        "app", [EVENTS, Table("small", [older_than("at", keep_for="1h")])], budget=Budget(rows=100)
    )

    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert report.counts == {"event": 95, "small": 5}


def test_lag_and_backlog_say_how_far_behind_a_rule_is(ground: Ground) -> None:
    make_events(ground, 200)
    contract = Contract("app", [EVENTS], budget=Budget(rows=40))

    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))

    [health] = report.health
    assert health.backlog == 100
    assert health.lag == timedelta(minutes=99)


def test_rows_that_arrive_faster_than_the_budget_removes_them_are_reported(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    make_events(ground, 200)
    contract = Contract("app", [EVENTS], budget=Budget(rows=30), every="5m")
    run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))
    ground.fill("event", [(n, "done", ago(hours=5)) for n in range(1000, 1500)])
    later = ManualClock(NOW + timedelta(minutes=5))

    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=later))

    assert report.health[0].is_falling_behind
    assert report.health[0].arriving_per_second == pytest.approx(505 / 300)
    assert "app.lifecycle_falling_behind" in caplog.text


CONFIRMED: list[Rule] = [
    older_than("at", keep_for="1h"),
    terminal("status", states=["done"], at="at", keep_for="1h"),
    keep_last(10, per=["status"], order_by="at"),
]


@pytest.mark.parametrize("rule", CONFIRMED)
def test_a_first_run_that_would_remove_most_of_a_large_table_is_held_back(
    ground: Ground, rule: Rule, caplog: pytest.LogCaptureFixture
) -> None:
    make_events(ground, MANY)
    ground.run("CREATE TABLE small (id {key}, at {instant})")
    ground.fill("small", [(1, ago(days=1))])

    report = ground.sweep(Table("event", [rule]), Table("small", [older_than("at", keep_for="1h")]))

    [held] = report.held
    assert (held.table, held.of, held.rows > MANY / 2) == ("event", MANY, True)
    assert report.counts == {"small": 1}
    assert "app.lifecycle_confirmation_needed" in caplog.text
    assert plan([Contract("app", [Table("event", [rule])])], ground.url)[0].needs_confirmation


def test_what_a_person_agreed_to_is_not_asked_again(ground: Ground) -> None:
    make_events(ground, MANY)
    asked = []

    def agree(held: object) -> bool:
        asked.append(held)
        return True

    report = ground.sweep(EVENTS, by=SweepOptions(confirm=agree))
    assert report.counts == {"event": MANY - 60}
    ground.fill("event", [(n, "done", ago(days=1)) for n in range(20_000, 20_000 + MANY)])

    assert ground.sweep(EVENTS).counts == {"event": MANY}
    assert len(asked) == 1


def test_a_retention_shortened_by_a_typo_is_held_back(ground: Ground) -> None:
    make_events(ground, MANY)
    agreed = Table("event", [older_than("at", keep_for="30d")])
    assert ground.sweep(agreed).is_clean

    report = ground.sweep(Table("event", [older_than("at", keep_for="30m")]))

    assert len(ground.ids("event")) == MANY
    assert [held.rows for held in report.held] == [MANY - 30]
    assert ground.sweep(agreed).is_clean


def test_a_shortened_retention_that_removes_little_is_not_asked_for(ground: Ground) -> None:
    make_events(ground, MANY)
    ground.sweep(Table("event", [older_than("at", keep_for="30d")]))

    report = ground.sweep(Table("event", [older_than("at", keep_for="7d")]))

    assert report.is_clean
    assert report.counts == {"event": MANY - 7 * 1440}


def test_a_throttle_holds_the_sweep_between_batches(ground: Ground) -> None:
    from gandy.lifecycle import Throttle  # noqa: PLC0415

    make_events(ground, 100)
    answers = iter([True, True, False])
    rests: list[timedelta] = []
    table = Table(
        "event", [older_than("at", keep_for="1h")], throttle=Throttle(ask=lambda: next(answers, False))
    )

    report = ground.sweep(table, by=SweepOptions(rest=rests.append))

    assert report.counts == {"event": 40}
    assert len(rests) == 2


def test_waiters_for_the_table_hold_the_sweep(postgres: Ground) -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415
    from contextlib import closing  # noqa: PLC0415

    from gandy.lifecycle import Throttle  # noqa: PLC0415
    from tests.support.waiting import wait_until  # noqa: PLC0415

    make_events(postgres, 100)
    table = Table("event", [older_than("at", keep_for="1h")], throttle=Throttle(lock_waiters=1))
    with closing(postgres.connect()) as holder, ThreadPoolExecutor() as pool:
        holder.execute("BEGIN")
        holder.execute("UPDATE event SET status = 'x' WHERE id = 1")
        waiting = pool.submit(postgres.run, "UPDATE event SET status = 'y' WHERE id = 1")
        blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        wait_until(lambda: postgres.rows(blocked) == [(1,)], "somebody waits for the row")
        rests = []

        def rest(span: timedelta) -> None:
            rests.append(span)
            if len(rests) == 2:
                holder.execute("COMMIT")
                waiting.result()

        report = postgres.sweep(table, by=SweepOptions(rest=rest))

    assert report.counts == {"event": 40}
    assert len(rests) == 2


def test_replication_that_does_not_lag_holds_nothing(ground: Ground) -> None:
    from gandy.lifecycle import Throttle  # noqa: PLC0415

    make_events(ground, 100)
    table = Table(
        "event",
        [older_than("at", keep_for="1h")],
        throttle=Throttle(replication_lag=timedelta(seconds=5)),
    )

    assert ground.sweep(table).counts == {"event": 40}


def test_the_loop_keeps_its_contracts_until_it_is_stopped(ground: Ground) -> None:
    make_events(ground, 100)
    stop, ticks = Event(), []

    def ticked(report: object) -> None:
        ticks.append(report)
        if len(ticks) == 3:
            stop.set()

    keep_contracts([Contract("app", [EVENTS], every="1ms")], ground.url, stop=stop, ticked=ticked)

    assert len(ticks) == 3
    assert ground.ids("event") == []


def test_a_stop_is_heard_between_two_batches(ground: Ground) -> None:
    make_events(ground, 100)
    contract = Contract("app", [Table("event", [expires("at")])], batch=steps_of(10))
    pruned: list[object] = []
    by = SweepOptions(
        clock=ManualClock(NOW),
        pruned=lambda *counts: pruned.append(counts),
        is_stopping=lambda: len(pruned) == 3,
    )

    [report] = run_contracts([contract], ground.url, options=by)

    assert report.deleted == 30
    assert report.rules[0].ending == "stopped"


def test_two_threads_that_sweep_first_share_their_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    both = Barrier(2)

    def make(_: CollectorRegistry) -> PrometheusMetrics:
        with suppress(BrokenBarrierError):
            both.wait(timeout=0.2)  # a second thread would come here, too
        made.append(PrometheusMetrics(CollectorRegistry()))
        return made[-1]

    monkeypatch.setattr(reporting, "PrometheusMetrics", make)
    monkeypatch.setattr(reporting, "_made", lru_cache(reporting._made.__wrapped__))  # nothing is made yet
    with ThreadPoolExecutor(2) as pool:
        found = [asked.result() for asked in [pool.submit(process_metrics) for _ in range(2)]]

    assert found == made * 2
