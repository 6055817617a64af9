"""A DELETE trigger that inserts the row again: it is quarantined or told, and every sweep ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, cap, expires, older_than, run_contracts
from tests.lifecycle.ground import NOW, ago, steps_of

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule
    from gandy.lifecycle.supervisor.report import ContractReport
    from tests.lifecycle.ground import Ground

RULES: dict[str, Rule] = {
    "older_than": older_than("at", keep_for="1d"),
    "expires": expires("at"),
    "wait_for": older_than("at", keep_for="1d", wait_for=["part.event"]),
}
ALONE = "CREATE INDEX event_at ON event (at, id)"
TIED = "CREATE INDEX event_at ON event (at)"


def make(ground: Ground, index: str = ALONE) -> None:
    ground.run(
        "CREATE TABLE event (id {key}, at {instant}, kind bigint)",
        index,
        "CREATE INDEX event_kind ON event (kind, at, id)",
        "CREATE TABLE part (id {key}, event bigint)",
        "CREATE INDEX part_event ON part (event)",
        "CREATE TABLE log (id bigint)",
    )


def fire(ground: Ground, body: str, *, table: str = "event", when: str = "true") -> None:
    """A trigger after each delete; on both databases OLD is the row."""
    if ground.kind == "sqlite":
        ground.run(f"CREATE TRIGGER again AFTER DELETE ON {table} WHEN {when} BEGIN {body}; END")
        return
    ground.run(
        "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF {when} THEN {body}; END IF; RETURN NULL; END $$",
        f"CREATE TRIGGER again AFTER DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION again()",
    )


def in_steps(ground: Ground, table: Table, size: int) -> ContractReport:
    contract = Contract("app", [table], batch=steps_of(size))
    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))
    return report


def told(ground: Ground) -> list[tuple[str, bool]]:
    found = ground.rows("SELECT row_key, error FROM gandy_lifecycle_quarantine ORDER BY 1")
    return [(key, "inserted again" in error and "triggers: again" in error) for key, error in found]


@pytest.mark.parametrize("index", [ALONE, TIED])
@pytest.mark.parametrize("rule", RULES)
def test_a_row_that_comes_back_is_quarantined_and_the_others_go(
    ground: Ground, rule: str, index: str
) -> None:
    make(ground, index)
    ground.fill("event", [(n, ago(days=2), 0) for n in range(1, 101)])
    fire(ground, "INSERT INTO event VALUES (OLD.id, OLD.at, OLD.kind)", when="OLD.id IN (7, 90)")
    table = Table("event", [RULES[rule]], triggers=["again"])

    report = in_steps(ground, table, 20)

    assert (report.counts, ground.ids("event")) == ({"event": 98}, [7, 90])
    assert told(ground) == [("[7]", True), ("[90]", True)]
    assert ground.sweep(table).counts == {}


@pytest.mark.parametrize("size", [50, 500])
@pytest.mark.parametrize("at", ["OLD.at", "NULL", "later"])
@pytest.mark.parametrize("rule", RULES)
def test_rows_that_come_back_under_another_key_do_not_keep_a_sweep_busy(
    ground: Ground, rule: str, at: str, size: int
) -> None:
    make(ground)
    ground.fill("event", [(n, ago(days=1000), 0) for n in range(1, 61)])
    if at == "later":
        at = (
            "strftime('%Y-%m-%dT%H:%M:%fZ', OLD.at, '+1 second')"
            if ground.kind == "sqlite"
            else "OLD.at + interval '1 second'"
        )
    fire(ground, f"INSERT INTO event VALUES (OLD.id + 100, {at}, OLD.kind)")  # noqa: S608  # test names

    report = in_steps(ground, Table("event", [RULES[rule]], triggers=["again"]), size)

    assert len(ground.ids("event")) == 60
    reasons = [failure.error for failure in report.failures]
    is_told = ["may insert a dead row" in each and "triggers: again" in each for each in reasons]
    assert is_told == ([] if at == "NULL" else [True])  # without an instant they are not dead


@pytest.mark.parametrize("size", [2, 500])
def test_a_cap_ends_too(ground: Ground, size: int) -> None:
    make(ground)
    ground.fill("event", [(n, ago(days=n), 0) for n in range(1, 6)])
    fire(ground, "INSERT INTO event VALUES (OLD.id - 10, OLD.at, OLD.kind)")

    rule = cap(2, per=["kind"], order_by="at")
    [failure] = in_steps(ground, Table("event", [rule], triggers=["again"]), size).failures

    assert "triggers: again" in failure.error
    assert len(ground.ids("event")) == 5


@pytest.mark.parametrize("key", ["", " REFERENCES event (id)"])
def test_a_child_that_comes_back_keeps_its_parent(ground: Ground, key: str) -> None:
    make(ground)
    ground.run("DROP TABLE part", f"CREATE TABLE part (id {{key}}, event bigint{key})")
    ground.fill("event", [(n, ago(days=2), 0) for n in (1, 2, 3)])
    ground.fill("part", [(n, n // 10) for n in (10, 20, 21, 30)])
    fire(ground, "INSERT INTO part VALUES (OLD.id, OLD.event)", table="part", when="OLD.id = 20")
    table = Table(
        "event",
        [RULES["older_than"]],
        children={"part.event": "delete_first"},
        triggers=["part.again"],
    )

    report = ground.sweep(table)

    assert (ground.ids("event"), ground.ids("part")) == ([2], [20, 21])
    assert report.counts == {"event": 2, "part": 2}
    assert told(ground) == [("[2]", True)]


def test_a_trigger_that_only_tells_is_no_obstacle(ground: Ground) -> None:
    make(ground)
    ground.fill("event", [(n, ago(days=2), 0) for n in range(1, 101)])
    fire(ground, "INSERT INTO log VALUES (OLD.id)")

    report = ground.sweep(Table("event", [RULES["older_than"]], triggers=["again"]))

    assert (report.is_clean, report.counts) == (True, {"event": 100})
    assert (ground.ids("event"), len(ground.ids("log"))) == ([], 100)


@pytest.mark.parametrize("size", [1, 500])
def test_rows_that_a_delete_frees_do_not_count_as_coming_back(ground: Ground, size: int) -> None:
    """Of a chain only the newest row is free; its delete frees the next, and nothing is inserted."""
    make(ground)
    ground.run("ALTER TABLE event ADD COLUMN before bigint", "CREATE INDEX event_before ON event (before)")
    ground.fill("event", [(n, ago(days=2), 0, n - 1) for n in range(1, 6)])
    fire(ground, "INSERT INTO log VALUES (OLD.id)")
    rule = older_than("at", keep_for="1d", wait_for=["event.before"])

    report = in_steps(ground, Table("event", [rule], triggers=["again"]), size)

    assert (list(report.failures), report.counts) == ([], {"event": 5})
