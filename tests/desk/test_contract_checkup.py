"""What a check-up says of an application's lifecycle contracts."""

from __future__ import annotations

from gandy.clock import ManualClock
from gandy.desk.lifecycle import of_contracts
from gandy.lifecycle import Contract, SweepOptions, Table, expires, older_than, run_contracts
from tests.lifecycle.ground import NOW, Ground, ago


def make_events(url: str, *, old: int) -> Ground:
    ground = Ground(url)
    ground.run("CREATE TABLE events (id {key}, at {instant})", "CREATE INDEX by_age ON events (at)")
    ground.fill("events", [(n, ago(days=10)) for n in range(old)])
    return ground


def contract(url: str, table: str = "events") -> Contract:
    return Contract("shop", [Table(table, [older_than("at", keep_for="1d")])], database=url)


def test_a_contract_that_fits_is_not_mentioned(database_url: str) -> None:
    make_events(database_url, old=3)

    assert list(of_contracts([contract(database_url)])) == []


def test_a_rule_that_waits_for_a_person_is_a_problem_until_they_agree(database_url: str) -> None:
    ground = make_events(database_url, old=10_001)
    shop, clock = contract(database_url), ManualClock(NOW)
    [held] = run_contracts([shop], options=SweepOptions(clock=clock))
    assert held.held

    (found,) = of_contracts([shop])
    assert (found.level, found.check) == ("problem", "lifecycle")
    assert "10,001 rows" in found.what
    assert "gandy lifecycle sweep --table events --yes" in found.to_do

    run_contracts([shop], options=SweepOptions(clock=clock, confirm=lambda _: True))
    assert list(of_contracts([shop])) == []
    assert ground.ids("events") == []


def test_a_contract_that_does_not_fit_is_a_problem_and_the_others_are_looked_at(database_url: str) -> None:
    make_events(database_url, old=3)
    unset = Contract("unset", [Table("events", [expires("at")])], database_env="NOT_SET_ANYWHERE")

    first, second = of_contracts([unset, contract(database_url, "nowhere")])
    assert "NOT_SET_ANYWHERE" in first.what
    assert "nowhere" in second.what
