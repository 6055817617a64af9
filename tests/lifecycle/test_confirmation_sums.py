"""A person is asked by what all rules together would take from a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    cap,
    expires,
    older_than,
    plan,
    run_contracts,
    terminal,
)
from tests.lifecycle.ground import NOW, ago, ahead

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule
    from tests.lifecycle.ground import Ground

MANY = 11_000
STATES = "aaaabbbbcc"


def make_events(ground: Ground, rows: int = MANY) -> None:
    """Old events: four of ten in the state a, four in b, two in c; `later` is past for those in a."""
    ground.run(
        "CREATE TABLE event (id {key}, k text, at {instant}, later {instant})",
        "CREATE INDEX by_k ON event (k, at)",
        "CREATE INDEX by_at ON event (at)",
        "CREATE INDEX by_later ON event (later)",
    )
    ground.fill(
        "event",
        [(n, STATES[n % 10], ago(days=9), ago(days=9) if n % 10 < 4 else ahead(days=9)) for n in range(rows)],
    )


def of_state(*states: str, keep_for: str = "1d") -> Rule:
    return terminal("k", states=list(states), at="at", keep_for=keep_for)


def foreseen(ground: Ground, *tables: Table) -> list[bool]:
    planned = plan([Contract("app", tables)], ground.url, clock=ManualClock(NOW))
    return [rule.needs_confirmation for rule in planned]


@pytest.mark.parametrize(
    "rules",
    [
        [of_state("a", "b")],
        [of_state("a"), expires("later"), of_state("b")],
        [of_state("b"), cap(MANY * 6 // 10, order_by="id")],
    ],
    ids=["two states", "three rules", "a cap"],
)
def test_rules_that_take_less_than_half_each_ask_together(ground: Ground, rules: list[Rule]) -> None:
    make_events(ground)
    table = Table("event", rules)

    is_asked, report = foreseen(ground, table), ground.sweep(table)

    assert all(is_asked)
    assert len(report.held) == len(is_asked) >= 2
    assert all(held.rows * 2 > held.of == MANY and held.is_shared for held in report.held)
    assert (len(ground.ids("event")), report.counts) == (MANY, {})


def test_rows_that_two_rules_mean_count_once(ground: Ground) -> None:
    make_events(ground)
    table = Table("event", [of_state("a"), expires("later")])

    assert foreseen(ground, table) == [False, False]
    assert ground.sweep(table).held == []


def test_a_rule_that_was_agreed_to_counts_and_is_not_asked_for_again(ground: Ground) -> None:
    make_events(ground, 10)
    first = Table("event", [of_state("a")])
    ground.sweep(first)
    ground.run("DROP TABLE event")
    make_events(ground)
    both = Table("event", [of_state("a"), of_state("b")])

    is_asked, report = foreseen(ground, both), ground.sweep(both)

    assert is_asked == [False, True]
    assert [held.rule for held in report.held] != []
    assert report.counts == {"event": MANY * 4 // 10}


def test_a_new_rule_that_takes_nothing_is_not_asked_for(ground: Ground) -> None:
    make_events(ground, 10)
    ground.sweep(Table("event", [of_state("a", "b")]))
    ground.run("DROP TABLE event")
    make_events(ground)

    report = ground.sweep(Table("event", [of_state("a", "b", "x")]))

    assert (report.held, report.counts) == ([], {"event": MANY * 8 // 10})


def make_family(ground: Ground) -> tuple[Table, Table]:
    """Two kinds of parents, with each of which four of ten children would go."""
    for name in ("left", "right"):
        ground.run(f"CREATE TABLE {name}_side (id {{key}}, at {{instant}})")
        ground.run(f"CREATE INDEX by_at_{name} ON {name}_side (at)")
        ground.fill(f"{name}_side", [(1, ago(days=9))])
    ground.run(
        "CREATE TABLE child (id {key}, left_id bigint REFERENCES left_side (id),"
        " right_id bigint REFERENCES right_side (id))",
        "CREATE INDEX by_left ON child (left_id)",
        "CREATE INDEX by_right ON child (right_id)",
    )
    sides = {4: (1, None), 8: (None, 1), 10: (None, None)}
    ground.fill(
        "child", [(n, *next(side for end, side in sides.items() if n % 10 < end)) for n in range(MANY)]
    )
    left, right = (
        Table(
            f"{name}_side",
            [older_than("at", keep_for="1d")],
            children={f"child.{name}_id": "delete_first"},
        )
        for name in ("left", "right")
    )
    return left, right


def test_children_of_two_rules_ask_together(ground: Ground) -> None:
    tables = make_family(ground)

    is_asked, report = foreseen(ground, *tables), ground.sweep(*tables)

    assert is_asked == [True, True]
    assert [held.rows for held in report.held] == [MANY * 8 // 10] * 2
    assert len(ground.ids("child")) == MANY


def test_children_of_two_contracts_ask_together(ground: Ground) -> None:
    left, right = make_family(ground)
    contracts = [Contract("one", [left]), Contract("two", [right])]

    planned = plan(contracts, ground.url, clock=ManualClock(NOW))
    reports = run_contracts(contracts, ground.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert [rule.needs_confirmation for rule in planned] == [True, True]
    assert [len(report.held) for report in reports] == [1, 1]
    assert len(ground.ids("child")) == MANY


def test_statistics_that_are_far_too_high_decide_nothing(postgres: Ground) -> None:
    make_events(postgres, MANY)
    postgres.run(
        "ALTER TABLE event SET (autovacuum_enabled = false)",
        "ANALYZE event",
        "UPDATE pg_class SET reltuples = 2000000000 WHERE relname = 'event'",
    )

    report = postgres.sweep(Table("event", [older_than("at", keep_for="1d")]))

    assert [(held.rows, held.of) for held in report.held] == [(MANY, MANY)]
