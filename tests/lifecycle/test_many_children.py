"""A batch is bounded in rows that go, children included: parents with more children than that."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Connection, Engine, event

from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    Throttle,
    cap,
    expires,
    keep,
    keep_last,
    older_than,
    plan,
    quarantine,
    run_contracts,
    stale_cursor,
    terminal,
)
from tests.lifecycle.ground import NOW, ago, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gandy.lifecycle.contract.rules import Rule
    from gandy.lifecycle.supervisor.report import ContractReport
    from tests.lifecycle.ground import Ground

BOUND = 200
OLD = older_than("at", keep_for="7d")
GOING = ("child.parent_id", "grandchild.child_id")
# Every row that is there, and once more for every reference: what is left of both tells what was written.
LEFT = """
SELECT (SELECT count(*) FROM parent) + (SELECT count(*) FROM child) + (SELECT count(*) FROM grandchild)
     + (SELECT count(parent_id) FROM link)
"""


def make(ground: Ground, action: str = "", *, children: int = 150, grandchildren: int = 600) -> None:
    """Three parents; the second one has many children, which share many grandchildren."""
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant}, state text)",
        f"CREATE TABLE child (id {{key}}, parent_id bigint REFERENCES parent (id) {action})",
        "CREATE TABLE grandchild (id {key}, child_id bigint REFERENCES child (id) "
        f"{action}, held {{flag}})",
        "CREATE TABLE link (id {key}, parent_id bigint REFERENCES parent (id))",
        "CREATE TABLE log (id {key}, at {instant})",
        "CREATE INDEX by_age ON parent (at, id)",
        "CREATE INDEX by_state ON parent (state, at, id)",
        "CREATE INDEX by_parent ON child (parent_id)",
        "CREATE INDEX by_child ON grandchild (child_id)",
        "CREATE INDEX by_link ON link (parent_id)",
    )
    ground.fill("parent", [(n, ago(days=12 - n), "done") for n in (1, 2, 3)])
    ground.fill("child", [(n, 2) for n in range(children)] + [(10_001, 1), (10_003, 3)])
    if grandchildren:
        ground.fill("grandchild", [(n, n * children // grandchildren, None) for n in range(grandchildren)])


def contract_of(
    rule: Rule = OLD,
    *,
    mode: str = "delete_first",
    ask: Callable[[], bool] | None = None,
    triggers: tuple[str, ...] = (),
) -> Contract:
    children = {**dict.fromkeys(GOING, mode), "link.parent_id": "set_null"}
    table = Table("parent", [rule], children=children, throttle=Throttle(ask=ask), triggers=triggers)
    return Contract("app", [table, Table("grandchild", [keep("held", equals=True)])], batch=steps_of(BOUND))


def sweep(ground: Ground, contract: Contract, *, later: timedelta = timedelta(0)) -> ContractReport:
    by = SweepOptions(clock=ManualClock(NOW + later))
    [report] = run_contracts([contract], ground.url, options=by)
    return report


@contextmanager
def transactions() -> Iterator[list[int]]:
    """How many rows each transaction that commits meanwhile deletes or cuts off."""
    left: list[int] = []

    def look(connection: Connection) -> None:
        left.append(int(connection.exec_driver_sql(LEFT).scalar_one()))

    event.listen(Engine, "commit", look)
    sizes: list[int] = []
    try:
        yield sizes
    finally:
        event.remove(Engine, "commit", look)
        sizes += [before - after for before, after in pairwise(left) if before != after]


@dataclass
class Between:
    """Asked between two batches; acts once, before the one of this number."""

    act: Callable[[], None] = lambda: None
    number: int = 5
    asked: int = field(default=0)

    def __call__(self) -> bool:
        self.asked += 1
        if self.asked == self.number:
            self.act()
        return False


@pytest.mark.parametrize("mode", ["delete_first", "cascade"])
def test_the_rows_under_one_parent_go_over_several_transactions(ground: Ground, mode: str) -> None:
    make(ground, "ON DELETE CASCADE" if mode == "cascade" else "", children=500, grandchildren=2_000)
    between = Between()
    contract = contract_of(mode=mode, ask=between)

    with transactions() as sizes:
        report = sweep(ground, contract)

    assert (report.failures, quarantine(ground.url)) == ([], [])
    assert report.counts == {"parent": 3, "child": 502, "grandchild": 2_000}
    assert ground.rows(LEFT) == [(0,)]
    assert max(sizes) <= BOUND
    assert sum(sizes) == 2_505
    assert len(sizes) <= between.asked
    [outcome] = report.rules
    assert (outcome.rows, outcome.batches) == (3, len(sizes))


def test_references_that_are_cut_count_too(ground: Ground) -> None:
    make(ground, grandchildren=0, children=10)
    ground.fill("link", [(n, 2) for n in range(900)])

    with transactions() as sizes:
        report = sweep(ground, contract_of())

    assert report.counts == {"parent": 3, "child": 12}
    assert ground.rows("SELECT count(*), count(parent_id) FROM link") == [(900, 0)]
    assert max(sizes) <= BOUND
    assert sum(sizes) == 915


def test_references_of_rows_with_a_key_of_several_columns_are_cut_part_by_part(ground: Ground) -> None:
    make(ground, grandchildren=0, children=10)
    ground.run(
        "DROP TABLE link",
        "CREATE TABLE link (id bigint NOT NULL, name text NOT NULL, parent_id bigint REFERENCES parent (id),"
        " PRIMARY KEY (id, name))",
        "CREATE INDEX by_link ON link (parent_id)",
    )
    ground.fill("link", [(n, "x", 2) for n in range(900)])

    report = sweep(ground, contract_of())

    assert report.counts == {"parent": 3, "child": 12}
    assert ground.rows("SELECT count(*), count(parent_id) FROM link") == [(900, 0)]


def test_several_parents_share_the_bound(ground: Ground) -> None:
    make(ground, grandchildren=0, children=3)
    ground.fill("parent", [(n, ago(days=9), "done") for n in range(100, 200)])
    ground.fill("child", [(n, n // 10) for n in range(1_000, 2_000)])

    with transactions() as sizes:
        report = sweep(ground, contract_of())

    assert report.counts == {"parent": 103, "child": 1_005}
    assert max(sizes) <= BOUND
    assert len(sizes) < 20


def test_a_child_that_is_added_between_two_transactions_goes_too(ground: Ground) -> None:
    make(ground)
    between = Between(lambda: ground.fill("child", [(20_000, 2)]), number=3)

    report = sweep(ground, contract_of(ask=between))

    assert ground.rows(LEFT) == [(0,)]
    assert report.counts["child"] == 153


@pytest.mark.parametrize(
    "protection",
    [
        "UPDATE parent SET at = '2026-03-01T11:00:00Z' WHERE id = 2",
        "UPDATE grandchild SET held = {true} WHERE id = 599",
    ],
    ids=["renewed", "held"],
)
def test_what_protects_the_parent_meanwhile_saves_the_rest(ground: Ground, protection: str) -> None:
    make(ground)
    change = protection.format(true="true" if ground.kind == "postgresql" else "1")
    left: list[Any] = []

    def protect() -> None:
        ground.run(change)
        left.append(ground.rows("SELECT id FROM child ORDER BY id"))
        left.append(ground.ids("grandchild"))

    report = sweep(ground, contract_of(ask=Between(protect, number=3)))

    stays = [row for row in left[0] if row[0] < 10_000]
    assert 0 < len(left[1]) < 600
    assert (ground.ids("parent"), ground.ids("grandchild")) == ([2], left[1])
    assert ground.rows("SELECT id FROM child ORDER BY id") == stays
    assert report.counts["grandchild"] == 600 - len(left[1])


KILLED = """
import os, sys
from gandy.clock import ManualClock
from gandy.lifecycle import SweepOptions, run_contracts
from tests.lifecycle.ground import NOW
from tests.lifecycle.test_many_children import Between, contract_of

contract = contract_of(ask=Between(lambda: os._exit(9), number=3))
run_contracts([contract], sys.argv[1], options=SweepOptions(clock=ManualClock(NOW)))
"""


def test_the_next_sweep_goes_on_where_one_was_killed(ground: Ground) -> None:
    make(ground)
    killed = subprocess.run([sys.executable, "-c", KILLED, ground.url], check=False)
    gone = 755 - ground.rows(LEFT)[0][0]

    report = sweep(ground, contract_of(), later=timedelta(hours=1))

    assert (killed.returncode, 0 < gone < 700) == (9, True)
    assert (ground.rows(LEFT), sum(report.counts.values())) == ([(0,)], 755 - gone)


@pytest.mark.parametrize(
    "rule",
    [
        expires("at"),
        cap(1, order_by="at"),
        keep_last(1, order_by="at"),
        stale_cursor("at", keep_for="1d", log="log", log_at="at"),
        older_than("at", keep_for="1d", wait_for=["link.parent_id"]),
    ],
    ids=["expires", "cap", "keep_last", "stale_cursor", "wait_for"],
)
def test_a_parent_that_may_come_back_to_life_is_set_aside_whole(ground: Ground, rule: Rule) -> None:
    make(ground, grandchildren=1_900)
    contract = contract_of(rule)
    [*_, before] = plan([contract], ground.url, clock=ManualClock(NOW))

    report = sweep(ground, contract)

    survivors = [2, 3] if "order_by" in str(rule) else [2]
    children = 151 if len(survivors) > 1 else 150
    assert (ground.ids("parent"), len(ground.ids("child"))) == (survivors, children)
    assert len(ground.ids("grandchild")) == 1_900
    assert report.failures == []
    [row] = quarantine(ground.url)
    assert row.key == (2,)
    assert "2,050 rows would be deleted with it, and the limit of one transaction is 2,000" in row.error
    assert "child" in row.error
    assert before.rows == report.counts["parent"] == 3 - len(survivors)
    assert before.children == {"child": 152 - children}
    assert any("1 row is set aside" in note for note in before.notes), before.notes


def test_a_parent_that_may_come_back_to_life_goes_whole_up_to_ten_batches(ground: Ground) -> None:
    make(ground)
    contract = contract_of(expires("at"))
    [*_, before] = plan([contract], ground.url, clock=ManualClock(NOW))

    with transactions() as sizes:
        report = sweep(ground, contract)

    assert (ground.ids("parent"), quarantine(ground.url)) == ([], [])
    assert 751 in sizes
    assert (before.rows, before.children) == (3, {"child": 152, "grandchild": 600})
    assert report.counts == {"parent": 3, "child": 152, "grandchild": 600}


def test_a_terminal_state_is_final_so_its_rows_go_in_parts(ground: Ground) -> None:
    make(ground)

    report = sweep(ground, contract_of(terminal("state", states=["done"], at="at", keep_for="1d")))

    assert report.counts == {"parent": 3, "child": 152, "grandchild": 600}


@pytest.mark.parametrize("is_silent", [False, True], ids=["refused", "kept"])
def test_a_child_that_cannot_go_sets_its_parent_aside(ground: Ground, *, is_silent: bool) -> None:
    make(ground, children=500, grandchildren=0)
    guard_child(ground, is_silent=is_silent)
    contract = contract_of(triggers=("child.guard",))

    report = sweep(ground, contract)

    assert report.failures == []
    assert (ground.ids("parent"), len(ground.ids("child"))) == ([2], 500)
    [row] = quarantine(ground.url)
    assert ("a trigger keeps a row" if is_silent else "not now") in row.error


@pytest.mark.parametrize("rule", [OLD, expires("at")], ids=["in parts", "whole"])
@pytest.mark.parametrize("table", ["parent", "child"])
def test_a_trigger_that_ends_the_transaction_sets_a_parent_with_many_children_aside(
    sqlite: Ground, table: str, rule: Rule
) -> None:
    make(sqlite, children=500, grandchildren=0)
    column = "id" if table == "parent" else "parent_id"
    sqlite.run(
        f"CREATE TRIGGER guard BEFORE DELETE ON {table} WHEN OLD.{column} = 2"
        " BEGIN SELECT RAISE(ROLLBACK, 'not now'); END"
    )

    report = sweep(sqlite, contract_of(rule, triggers=(f"{table}.guard",)))

    assert report.failures == []
    assert sqlite.ids("parent") == [2]
    [row] = quarantine(sqlite.url)
    assert "not now" in row.error


def guard_child(ground: Ground, *, is_silent: bool) -> None:
    """A trigger that refuses to delete children of the second parent, or skips them."""
    if ground.kind == "sqlite":
        act = "IGNORE" if is_silent else "ABORT, 'not now'"
        ground.run(
            "CREATE TRIGGER guard BEFORE DELETE ON child WHEN OLD.parent_id = 2"
            f" BEGIN SELECT RAISE({act}); END"
        )
        return
    act = "RETURN NULL" if is_silent else "RAISE EXCEPTION 'not now'"
    with closing(ground.connect()) as connection:
        connection.execute(
            f"CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {act}; END $$"
        )
        connection.execute(
            "CREATE TRIGGER guard BEFORE DELETE ON child FOR EACH ROW WHEN (OLD.parent_id = 2)"
            " EXECUTE FUNCTION guard()"
        )


def make_cycle(ground: Ground, *, freed: int) -> None:
    """Rows without a key, two of which refer to rows that go with another; some low addresses are free."""
    ground.run(
        "CREATE TABLE parent (code integer UNIQUE, seq integer, at {instant}, favourite integer)",
        "CREATE TABLE child (code integer UNIQUE, parent integer REFERENCES parent (code))",
        "ALTER TABLE parent ADD FOREIGN KEY (favourite) REFERENCES child (code)",
    )
    codes = (*range(100, 100 + freed), 0, 1, 2, 3, 4)
    ground.fill("parent", [(code, code, ago(days=9), None) for code in codes])
    ground.fill("child", [(10, 1), (20, 2)])
    ground.run(
        "UPDATE parent SET favourite = 10 * (code - 1) WHERE code IN (2, 3)",
        "DELETE FROM parent WHERE code >= 100",
        "VACUUM parent",
    )


@pytest.mark.parametrize("freed", [0, 20], ids=["up", "down"])
@pytest.mark.parametrize(
    ("rule", "stays"),
    [
        (older_than("at", keep_for="1d"), 0),
        (cap(1, order_by="seq"), 1),
        (cap(1, order_by="at"), 1),
    ],
    ids=["age", "cap", "cap with ties"],
)
def test_a_row_without_a_key_that_a_batch_moves_goes_in_the_same_sweep(
    postgres: Ground, rule: Rule, stays: int, freed: int
) -> None:
    make_cycle(postgres, freed=freed)
    modes = {"child.parent": "delete_first", "parent.favourite": "set_null"}

    report = sweep(postgres, Contract("app", [Table("parent", [rule], children=modes)], batch=steps_of(1)))

    assert (report.failures, quarantine(postgres.url)) == ([], [])
    assert (len(postgres.ids("parent", "code")), report.counts["parent"]) == (stays, 5 - stays)
