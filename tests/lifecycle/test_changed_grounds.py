# ruff: noqa: S608  # the names are those of this test
"""Keys, triggers and holds that are made while a sweep runs: its next batch heeds them already."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, cap, expires, keep, older_than, run_contracts
from gandy.lifecycle.database.dialect import LockPatience
from tests.lifecycle.ground import NOW, ago, steps_of
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.lifecycle.contract.rules import Rule
    from gandy.lifecycle.supervisor.report import ContractReport
    from tests.lifecycle.ground import Ground

ROWS, BATCH, LATE = 40, 10, 35
PATIENT = LockPatience(lock=timedelta(seconds=20), statement=timedelta(seconds=20))
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@dataclass(frozen=True)
class Change:
    """What is made in the middle of a sweep, for the sake of one late row, and what must be left after it."""

    name: str
    statements: dict[str, tuple[str, ...]]
    stops: str  # what the rule says then

    def make(self, ground: Ground) -> None:
        ground.run(*self.statements[ground.kind])


_CHILD = "CREATE TABLE late (id {key}, parent_id bigint REFERENCES parent {action})"
_KEYS = [
    Change(
        name,
        dict.fromkeys(
            ("sqlite", "postgresql"),
            (_CHILD.replace("{action}", action), f"INSERT INTO late VALUES (1, {LATE})"),
        ),
        "late.parent_id",
    )
    for name, action in {
        "cascade": "ON DELETE CASCADE",
        "set_null": "ON DELETE SET NULL",
        "no_action": "",
    }.items()
]
_TELL = (
    "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN INSERT INTO told VALUES (old.id); RETURN old; END'"
)
_TRIGGER = Change(
    "trigger",
    {
        "sqlite": ("CREATE TRIGGER told AFTER DELETE ON parent BEGIN INSERT INTO told VALUES (old.id); END",),
        "postgresql": (
            _TELL,
            "CREATE TRIGGER told AFTER DELETE ON parent FOR EACH ROW EXECUTE FUNCTION tell()",
        ),
    },
    "told",
)
CHANGES = [pytest.param(change, id=change.name) for change in (*_KEYS, _TRIGGER)]
RULES: dict[str, Rule] = {
    "older_than": older_than("at", keep_for="7d"),
    "expires": expires("at"),
    "cap": cap(1, per=[], order_by="at"),
    "guarded": older_than("at", keep_for="7d", wait_for=["waits.parent_id"]),
}


def make_parents(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant}, held {flag})",
        "CREATE TABLE waits (id {key}, parent_id bigint)",
        "CREATE TABLE told (id bigint)",
        "CREATE INDEX parents ON parent (at, id)",
        "CREATE INDEX waiting ON waits (parent_id)",
    )
    ground.fill("parent", [(n, ago(days=60 - n), None) for n in range(1, ROWS + 1)])


@pytest.fixture
def parents(ground: Ground) -> Ground:
    make_parents(ground)
    return ground


def sweep(
    ground: Ground,
    rule: str,
    *,
    at_batch: Callable[[], None] = lambda: None,
    patience: LockPatience = PATIENT,
) -> ContractReport:
    """Sweep in batches; the change is made right after the first one was committed."""
    once = iter([at_batch])
    by = SweepOptions(
        clock=ManualClock(NOW),
        patience=patience,
        confirm=lambda _held: True,
        pages=None,
        pruned=lambda *_: next(once, lambda: None)(),
    )
    contract = Contract("app", [Table("parent", [RULES[rule]])], batch=steps_of(BATCH))
    [report] = run_contracts([contract], ground.url, options=by)
    return report


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_two_batches_stops_the_rule(parents: Ground, change: Change, rule: str) -> None:
    report = sweep(parents, rule, at_batch=lambda: change.make(parents))

    assert parents.ids("parent") == list(range(BATCH + 1, ROWS + 1))
    assert parents.ids("told") == []
    [failure] = report.failures
    assert change.stops in failure.error
    assert report.counts == {"parent": BATCH}


@pytest.mark.parametrize("rule", RULES)
def test_a_hold_of_another_contract_holds_from_the_next_batch_on(parents: Ground, rule: str) -> None:
    parents.run(f"UPDATE parent SET held = {'true' if parents.kind == 'postgresql' else 1} WHERE id = {LATE}")
    other = Contract("legal", [Table("parent", [keep(column="held", equals=True)])])

    def hold() -> None:
        run_contracts([other], parents.url, options=SweepOptions(clock=ManualClock(NOW)))

    report = sweep(parents, rule, at_batch=hold)

    kept = [LATE, ROWS] if rule == "cap" else [LATE]
    assert parents.ids("parent") == kept
    assert report.counts == {"parent": ROWS - len(kept)}
    assert (sum(done.rows for done in report.rules), report.failures) == (ROWS - len(kept), [])


@pytest.mark.parametrize("rule", RULES)
def test_what_changes_nothing_of_the_rule_changes_nothing_of_the_sweep(parents: Ground, rule: str) -> None:
    report = sweep(
        parents, rule, at_batch=lambda: parents.run("CREATE TABLE beside (id {key})", "ANALYZE parent")
    )

    assert parents.ids("parent") == ([ROWS] if rule == "cap" else [])
    assert (report.failures, report.deleted) == ([], ROWS - (rule == "cap"))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_a_batch_waited_for_is_seen(postgres: Ground, change: Change, rule: str) -> None:
    """It is not committed when the batch begins, which gets its locks once the change is there."""
    make_parents(postgres)
    with closing(postgres.connect()) as other, ThreadPoolExecutor() as pool:
        other.execute("BEGIN")
        other.execute("LOCK TABLE parent IN SHARE ROW EXCLUSIVE MODE")
        sweeping = pool.submit(sweep, postgres, rule)
        wait_until(lambda: postgres.rows(WAITING) == [(1,)], "a batch waits for the change")
        for statement in change.statements["postgresql"]:
            other.execute(statement.format(key="bigint PRIMARY KEY"))
        other.execute("COMMIT")
        report = sweeping.result()

    assert postgres.ids("parent") == list(range(1, ROWS + 1))
    assert postgres.ids("told") == []
    assert [change.stops in failure.error for failure in report.failures] == [True]


def test_a_sweep_whose_grounds_never_rest_says_so(parents: Ground) -> None:
    names = iter(range(1, 100))

    def change(*_: object) -> None:
        parents.run(f"ALTER TABLE parent ADD COLUMN more_{next(names)} bigint")

    by = SweepOptions(clock=ManualClock(NOW), confirm=lambda _held: True, pruned=change)
    contract = Contract("app", [Table("parent", [older_than("at", keep_for="7d")])], batch=steps_of(2))
    [report] = run_contracts([contract], parents.url, options=by)

    assert [failure.error for failure in report.failures] == [
        "tables or holds changed 10 times while the sweep ran; the next run continues from here"
    ]
    assert report.deleted == 2 * 10


WITH_CHILDREN = Table(
    "parent", [older_than("at", keep_for="7d")], children={"child.parent_id": "delete_first"}
)
GRANDCHILD = (
    "CREATE TABLE late (id {key}, child_id bigint REFERENCES child ON DELETE CASCADE)",
    f"INSERT INTO late VALUES (1, {LATE})",
)


def make_children(ground: Ground) -> None:
    make_parents(ground)
    ground.run(
        "CREATE TABLE child (id {key}, parent_id bigint REFERENCES parent)",
        "CREATE INDEX children ON child (parent_id)",
    )
    ground.fill("child", [(n, n) for n in range(1, ROWS + 1)])


def sweep_children(ground: Ground, at_batch: Callable[[], None] = lambda: None) -> ContractReport:
    once = iter([at_batch])
    by = SweepOptions(
        clock=ManualClock(NOW),
        patience=PATIENT,
        confirm=lambda _held: True,
        pruned=lambda *_: next(once, lambda: None)(),
    )
    contract = Contract("app", [WITH_CHILDREN], batch=steps_of(2 * BATCH))
    [report] = run_contracts([contract], ground.url, options=by)
    return report


def test_a_key_to_a_child_between_two_batches_stops_the_rule(ground: Ground) -> None:
    make_children(ground)

    report = sweep_children(ground, lambda: ground.run(*GRANDCHILD))

    assert ground.ids("late") == [1]
    assert LATE in ground.ids("child")
    assert ["late.child_id" in failure.error for failure in report.failures] == [True]


def test_a_key_to_a_child_that_a_batch_waited_for_is_seen(postgres: Ground) -> None:
    make_children(postgres)
    with closing(postgres.connect()) as other, ThreadPoolExecutor() as pool:
        other.execute("BEGIN")
        other.execute("LOCK TABLE child IN SHARE ROW EXCLUSIVE MODE")
        sweeping = pool.submit(sweep_children, postgres)
        wait_until(lambda: postgres.rows(WAITING) == [(1,)], "a batch waits for the change")
        for statement in GRANDCHILD:
            other.execute(statement.format(key="bigint PRIMARY KEY"))
        other.execute("COMMIT")
        report = sweeping.result()

    assert (len(postgres.ids("child")), postgres.ids("late")) == (ROWS, [1])
    assert ["late.child_id" in failure.error for failure in report.failures] == [True]


def test_a_key_to_one_partition_between_two_batches_stops_the_rule(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE parent (id bigint, at timestamptz, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        f"CREATE TABLE early PARTITION OF parent FOR VALUES FROM (1) TO ({LATE})",
        f"CREATE TABLE later PARTITION OF parent FOR VALUES FROM ({LATE}) TO (1000)",
        "CREATE INDEX parents ON parent (at, id)",
    )
    postgres.fill("parent", [(n, ago(days=60 - n)) for n in range(1, ROWS + 1)])
    key = "CREATE TABLE late (id bigint PRIMARY KEY, parent_id bigint REFERENCES later ON DELETE CASCADE)"

    report = sweep(
        postgres,
        "older_than",
        at_batch=lambda: postgres.run(key, f"INSERT INTO late VALUES (1, {LATE})"),
    )

    assert postgres.ids("late") == [1]
    assert LATE in postgres.ids("parent")
    assert ["late.parent_id" in failure.error for failure in report.failures] == [True]
