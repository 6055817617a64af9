"""A trigger that keeps a row without an error: nothing that hangs on it is lost, and every other goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, expires, older_than, plan, run_contracts
from tests.lifecycle.ground import NOW, ago, steps_of

if TYPE_CHECKING:
    from gandy.lifecycle.supervisor.report import ContractReport
    from tests.lifecycle.ground import Ground

ACTIONS = {"delete_first": "", "cascade": " ON DELETE CASCADE", "set_null": " ON DELETE SET NULL"}


def make(ground: Ground, action: str = "") -> None:
    """Three parents with two children each, and two rows below each child."""
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE INDEX by_at ON parent (at)",
        f"CREATE TABLE child (id {{key}}, parent_id bigint REFERENCES parent (id){action})",
        "CREATE INDEX by_parent ON child (parent_id)",
        "CREATE TABLE leaf (id {key}, child_id bigint REFERENCES child (id) ON DELETE CASCADE)",
        "CREATE INDEX by_child ON leaf (child_id)",
    )
    ground.fill("parent", [(n, ago(days=2)) for n in (1, 2, 3)])
    ground.fill("child", [(n, n // 10) for n in (10, 11, 20, 21, 30, 31)])
    ground.fill("leaf", [(n, n // 10) for c in (10, 11, 20, 21, 30, 31) for n in (c * 10, c * 10 + 1)])


def keep_row(ground: Ground, table: str, row: int) -> None:
    """A trigger that skips one row."""
    if ground.kind == "sqlite":
        ground.run(
            f"CREATE TRIGGER stay BEFORE DELETE ON {table} WHEN OLD.id = {row}"
            " BEGIN SELECT RAISE(IGNORE); END"
        )
        return
    ground.run(
        "CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF OLD.id = {row} THEN RETURN NULL; END IF; RETURN OLD; END $$",
        f"CREATE TRIGGER stay BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION stay()",
    )


def parents(mode: str, *triggers: str) -> Table:
    children = {"child.parent_id": mode}
    if mode != "set_null":
        children["leaf.child_id"] = "cascade"
    return Table("parent", [older_than("at", keep_for="1d")], children=children, triggers=list(triggers))


def world(ground: Ground) -> dict[str, list[int]]:
    return {table: ground.ids(table) for table in ("parent", "child", "leaf")}


def quarantined(ground: Ground) -> list[tuple[str, bool]]:
    found = ground.rows("SELECT row_key, error FROM gandy_lifecycle_quarantine")
    return [(key, "a trigger" in error and "stay" in error) for key, error in found]


@pytest.mark.parametrize("mode", list(ACTIONS))
def test_a_parent_that_is_kept_keeps_all_that_hangs_on_it(ground: Ground, mode: str) -> None:
    make(ground, ACTIONS[mode])
    keep_row(ground, "parent", 2)
    before = ground.rows("SELECT id, parent_id FROM child WHERE parent_id = 2 ORDER BY id")

    report = ground.sweep(parents(mode, "stay"))

    assert ground.ids("parent") == [2]
    assert ground.rows("SELECT id, parent_id FROM child WHERE parent_id = 2 ORDER BY id") == before
    assert {200, 201, 210, 211} <= set(ground.ids("leaf"))
    assert quarantined(ground) == [("[2]", True)]
    assert report.counts["parent"] == 2
    assert report.counts.get("child", 0) == 6 - len(ground.ids("child"))
    assert ground.sweep(parents(mode, "stay")).counts.get("parent", 0) == 0


@pytest.mark.parametrize("mode", ["delete_first", "cascade"])
@pytest.mark.parametrize(("table", "row"), [("child", 20), ("leaf", 201)])
def test_a_child_that_is_kept_keeps_its_parent(ground: Ground, mode: str, table: str, row: int) -> None:
    make(ground, ACTIONS[mode])
    keep_row(ground, table, row)

    report = ground.sweep(parents(mode, f"{table}.stay"))

    assert world(ground) == {"parent": [2], "child": [20, 21], "leaf": [200, 201, 210, 211]}
    assert report.counts == {"parent": 2, "child": 4, "leaf": 8}
    assert [is_told for _, is_told in quarantined(ground)] == [True]


def test_a_row_without_children_is_quarantined_too(ground: Ground) -> None:
    ground.run("CREATE TABLE parent (id {key}, at {instant})", "CREATE INDEX by_at ON parent (at)")
    ground.fill("parent", [(n, ago(days=2)) for n in (1, 2, 3)])
    keep_row(ground, "parent", 2)

    report = ground.sweep(Table("parent", [older_than("at", keep_for="1d")], triggers=["stay"]))

    assert (ground.ids("parent"), report.counts) == ([2], {"parent": 2})
    assert [is_told for _, is_told in quarantined(ground)] == [True]


def test_a_kept_row_beside_one_that_is_refused(ground: Ground) -> None:
    make(ground)
    keep_row(ground, "child", 20)
    if ground.kind == "sqlite":
        ground.run(
            "CREATE TRIGGER no BEFORE DELETE ON parent WHEN OLD.id = 3 BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    else:
        ground.run(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN IF OLD.id = 3 THEN RAISE 'no'; END IF; RETURN OLD; END $$",
            "CREATE TRIGGER no BEFORE DELETE ON parent FOR EACH ROW EXECUTE FUNCTION no()",
        )

    report = ground.sweep(parents("delete_first", "no", "child.stay"))

    assert (ground.ids("parent"), ground.ids("child")) == ([2, 3], [20, 21, 30, 31])
    assert report.counts == {"parent": 1, "child": 2, "leaf": 4}
    assert sorted(key for key, _ in quarantined(ground)) == ["[2]", "[3]"]


@pytest.mark.parametrize("rule", ["NOTHING", "UPDATE parent SET at = NULL WHERE id = OLD.id"])
def test_a_rule_that_deletes_nothing_loses_nothing(postgres: Ground, rule: str) -> None:
    make(postgres)
    postgres.run(f"CREATE RULE stay AS ON DELETE TO parent DO INSTEAD {rule}")
    before = world(postgres)

    report = postgres.sweep(parents("delete_first", "stay"))

    assert (world(postgres), report.counts.get("child", 0)) == (before, 0)
    assert postgres.rows("SELECT count(*) FROM parent WHERE at IS NULL") == [(0,)]


def heavy(ground: Ground, rule: Table) -> ContractReport:
    contract = Contract("app", [rule], batch=steps_of(3))
    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))
    [planned] = plan([contract], ground.url, clock=ManualClock(NOW))
    assert planned.rows == 0
    return report


@pytest.mark.parametrize(("table", "row"), [("parent", 2), ("child", 20)])
@pytest.mark.parametrize("count", [12, 60])
def test_a_row_with_very_many_children_loses_none_of_them(
    ground: Ground, table: str, row: int, count: int
) -> None:
    make(ground)
    keep_row(ground, table, row)
    ground.fill("child", [(n, 2) for n in range(100, 100 + count)])

    name = "stay" if table == "parent" else "child.stay"
    heavy(ground, parents("delete_first", name))

    assert ground.ids("parent") == [2]
    assert len(ground.ids("child")) == count + 2
    assert ground.ids("leaf") == [200, 201, 210, 211]


def test_an_expiry_keeps_too(ground: Ground) -> None:
    make(ground)
    keep_row(ground, "child", 20)
    table = Table(
        "parent",
        [expires("at")],
        children={"child.parent_id": "delete_first", "leaf.child_id": "cascade"},
        triggers=["child.stay"],
    )

    assert ground.sweep(table).counts == {"parent": 2, "child": 4, "leaf": 8}
    assert world(ground) == {"parent": [2], "child": [20, 21], "leaf": [200, 201, 210, 211]}
