from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.lifecycle import Table, keep, older_than, plan
from gandy.lifecycle.contract.tables import Contract
from tests.lifecycle.ground import ago

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground

RULE = older_than("at", keep_for="7d")


def make(ground: Ground, action: str = "", *, nullable: bool = True) -> None:
    null = "" if nullable else " NOT NULL"
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        f"CREATE TABLE child (id {{key}}, parent_id bigint{null} REFERENCES parent (id) {action})",
        "CREATE INDEX by_age ON parent (at)",
        "CREATE INDEX by_parent ON child (parent_id)",
    )
    ground.fill("parent", [(1, ago(days=9)), (2, ago(days=8)), (3, ago(days=1))])
    ground.fill("child", [(11, 1), (12, 1), (21, 2), (31, 3)])


def test_delete_first_takes_the_children_along_and_counts_them(ground: Ground) -> None:
    make(ground)

    report = ground.sweep(Table("parent", [RULE], children={"child.parent_id": "delete_first"}))

    assert (ground.ids("parent"), ground.ids("child")) == ([3], [31])
    assert report.counts == {"parent": 2, "child": 3}


def test_cascades_are_counted(ground: Ground) -> None:
    make(ground, "ON DELETE CASCADE")

    report = ground.sweep(Table("parent", [RULE], children={"child.parent_id": "cascade"}))

    assert (ground.ids("parent"), ground.ids("child")) == ([3], [31])
    assert report.counts == {"parent": 2, "child": 3}


def test_set_null_keeps_the_children(ground: Ground) -> None:
    make(ground)

    report = ground.sweep(Table("parent", [RULE], children={"child.parent_id": "set_null"}))

    assert ground.rows("SELECT id, parent_id FROM child ORDER BY id") == [
        (11, None),
        (12, None),
        (21, None),
        (31, 3),
    ]
    assert report.counts == {"parent": 2}


@pytest.mark.parametrize(("owned", "lent"), [("a_id", "b_id"), ("b_id", "a_id")])
def test_a_row_that_goes_is_not_changed_before(ground: Ground, owned: str, lent: str) -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE TABLE child (id {key}, "
        "a_id bigint REFERENCES parent (id), b_id bigint REFERENCES parent (id), "
        f"CHECK ({lent} IS NOT NULL OR {owned} IS NULL))",
        "CREATE INDEX by_age ON parent (at)",
        "CREATE INDEX by_a ON child (a_id)",
        "CREATE INDEX by_b ON child (b_id)",
    )
    ground.fill("parent", [(1, ago(days=9))])
    ground.fill("child", [(11, 1, 1)])
    children = {f"child.{lent}": "set_null", f"child.{owned}": "delete_first"}

    report = ground.sweep(Table("parent", [RULE], children=children))

    assert (ground.ids("parent"), ground.ids("child")) == ([], [])
    assert report.counts == {"parent": 1, "child": 1}


@pytest.mark.parametrize("action", ["", "ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_a_foreign_key_that_nothing_covers_stops_the_rule_and_is_named(ground: Ground, action: str) -> None:
    make(ground, action)

    report = ground.sweep(Table("parent", [RULE]))

    assert len(ground.ids("parent")) == 3
    assert len(ground.ids("child")) == 4
    [failure] = report.failures
    assert "child.parent_id" in failure.error
    assert "wait_for" in failure.error


def test_a_set_null_that_would_hit_a_not_null_column_is_refused(ground: Ground) -> None:
    make(ground, "ON DELETE SET NULL", nullable=False)

    for children in ({}, {"child.parent_id": "set_null"}, {"child.parent_id": "delete_first"}):
        report = ground.sweep(Table("parent", [RULE], children=children))
        assert "parent_id is NOT NULL" in report.failures[0].error

    assert len(ground.ids("parent")) == 3


def test_a_cascade_that_the_database_would_not_do_is_refused(ground: Ground) -> None:
    make(ground)

    report = ground.sweep(Table("parent", [RULE], children={"child.parent_id": "cascade"}))

    assert "ON DELETE NO ACTION" in report.failures[0].error


def test_wait_for_beats_the_mode_of_the_table(ground: Ground) -> None:
    make(ground)
    ground.run("DELETE FROM child WHERE parent_id = 2")
    waiting = older_than("at", keep_for="7d", wait_for=["child.parent_id"])

    report = ground.sweep(Table("parent", [waiting], children={"child.parent_id": "delete_first"}))

    assert ground.ids("parent") == [1, 3]
    assert report.counts == {"parent": 1}


def test_grandchildren_need_a_mode_and_go_first(ground: Ground) -> None:
    make(ground)
    ground.run(
        "CREATE TABLE grandchild (id {key}, child_id bigint REFERENCES child (id))",
        "CREATE INDEX by_child ON grandchild (child_id)",
    )
    ground.fill("grandchild", [(111, 11), (311, 31)])
    modes = {"child.parent_id": "delete_first"}

    refused = ground.sweep(Table("parent", [RULE], children=modes))
    assert "grandchild.child_id" in refused.failures[0].error

    report = ground.sweep(Table("parent", [RULE], children={**modes, "grandchild.child_id": "delete_first"}))
    assert report.counts == {"parent": 2, "child": 3, "grandchild": 1}
    assert ground.ids("grandchild") == [311]


def test_children_that_refer_without_a_foreign_key_are_taken_along(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})", "CREATE TABLE child (id {key}, parent_id bigint)"
    )
    ground.fill("parent", [(1, ago(days=9)), (2, ago(days=1))])
    ground.fill("child", [(11, 1), (21, 2)])

    ground.sweep(Table("parent", [RULE], children={"child.parent_id": "delete_first"}))

    assert ground.ids("child") == [21]


def test_a_parent_is_kept_while_a_held_child_refers_to_it(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE TABLE child (id {key}, parent_id bigint REFERENCES parent (id), at {instant}, hold text)",
    )
    ground.fill("parent", [(1, ago(days=9)), (2, ago(days=9))])
    ground.fill("child", [(11, 1, ago(days=1), "case 7"), (21, 2, ago(days=1), None)])

    ground.sweep(
        Table("parent", [RULE], children={"child.parent_id": "delete_first"}),
        Table("child", [older_than("at", keep_for="90d"), keep("hold", equals="case 7")]),
    )

    assert (ground.ids("parent"), ground.ids("child")) == ([1], [11])


def test_a_reference_of_several_columns_is_followed(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE parent (tenant bigint, id bigint, at {instant}, PRIMARY KEY (tenant, id))",
        "CREATE TABLE child (id {key}, tenant bigint, parent_id bigint,"
        " FOREIGN KEY (tenant, parent_id) REFERENCES parent (tenant, id))",
    )
    ground.fill("parent", [(1, 1, ago(days=9)), (2, 1, ago(days=9)), (2, 2, ago(days=1))])
    ground.fill("child", [(1, 1, 1), (2, 2, 1), (3, 2, 2)])

    report = ground.sweep(Table("parent", [RULE], children={"child.tenant,parent_id": "delete_first"}))

    assert ground.ids("child") == [3]
    assert report.counts == {"parent": 2, "child": 2}


def test_rows_that_wait_for_rows_of_their_own_table_go_in_one_sweep(ground: Ground) -> None:
    ground.run("CREATE TABLE node (id {key}, parent_id bigint REFERENCES node (id), at {instant})")
    ground.fill("node", [(1, None, ago(days=9)), (2, 1, ago(days=9)), (3, 2, ago(days=9))])
    table = Table("node", [older_than("at", keep_for="7d", wait_for=["node.parent_id"])])

    ground.sweep(table)

    assert ground.ids("node") == []


@pytest.mark.parametrize("mode", ["delete_first", "cascade"])
@pytest.mark.parametrize("between", ["node", "link"], ids=["one table", "two tables"])
def test_keys_that_lead_back_to_their_table_stop_the_rule(ground: Ground, between: str, mode: str) -> None:
    ground.run(
        "CREATE TABLE node (id {key}, at {instant})",
        "CREATE TABLE link (id {key}, node_id bigint REFERENCES node (id) ON DELETE CASCADE)",
        f"ALTER TABLE node ADD COLUMN up bigint REFERENCES {between} (id) ON DELETE CASCADE",
    )
    ground.fill("node", [(1, ago(days=9), None)])
    modes = {"node.up": mode, "link.node_id": mode}

    [failure] = ground.sweep(Table("node", [RULE], children=modes)).failures

    assert "leads back to" in failure.error
    assert ground.ids("node") == [1]


def test_the_plan_counts_children_and_deletes_nothing(ground: Ground) -> None:
    make(ground)
    table = Table("parent", [older_than("at", keep_for="7d")], children={"child.parent_id": "delete_first"})

    [planned] = plan([Contract("app", [table])], ground.url)

    assert (planned.rows, planned.children) == (3, {"child": 4})
    assert len(ground.ids("child")) == 4
