"""The cost of a plan grows with its rules, not with the ways in which rules build on each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, Table, cap, older_than, plan, terminal
from tests.lifecycle.counting import counted
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground

STATES = ("done", "failed", "lost", "cancelled", "skipped")
EXPECTED = [32, 7, 6, 6, 6, 7, 0]  # notes, then jobs without a note by state, then by number


def make(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE job (id {key}, state text, at {instant})",
        "CREATE TABLE note (id {key}, job_id bigint REFERENCES job (id), at {instant})",
        "CREATE INDEX by_state ON job (state, at)",
        "CREATE INDEX by_job ON note (job_id)",
        "CREATE INDEX by_at ON note (at)",
    )
    ground.fill("job", [(number, STATES[number % 5], ago(days=number)) for number in range(1, 41)])
    ground.fill("note", [(number, number, ago(days=number)) for number in range(1, 41)])


def contracts() -> list[Contract]:
    """Ask for every row of a job after all earlier rules, in one contract and in the next."""
    by_state = [
        terminal("state", states=[state], at="at", keep_for="6d", wait_for=["note.job_id"])
        for state in STATES
    ]
    jobs = Table("job", [*by_state, cap(2, order_by="at", wait_for=["note.job_id"])])
    return [Contract("notes", [Table("note", [older_than("at", keep_for="9d")])]), Contract("jobs", [jobs])]


def test_rows_that_earlier_rules_delete_are_computed_once(sqlite: Ground) -> None:
    make(sqlite)

    with counted() as sent:
        planned = plan(contracts(), sqlite.url, clock=ManualClock(NOW))

    assert [rule.rows for rule in planned] == EXPECTED
    assert max(text.count("FROM job") for text in sent.statements) <= 2  # the oldest and the newest values


def test_rules_build_on_the_rules_of_an_earlier_contract(ground: Ground) -> None:
    make(ground)

    planned = plan(contracts(), ground.url, clock=ManualClock(NOW))

    assert all(rule.is_counted for rule in planned)
    assert [rule.rows for rule in planned] == EXPECTED


def test_a_plan_leaves_nothing_in_the_database(sqlite: Ground) -> None:
    make(sqlite)
    tables = sqlite.ids("sqlite_schema", "name")

    plan(contracts(), sqlite.url, clock=ManualClock(NOW))

    assert sqlite.ids("sqlite_schema", "name") == tables
