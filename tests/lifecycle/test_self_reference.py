"""Rows that wait for rows of their own table: a row's reference to itself does not hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, Table, cap, expires, plan
from tests.lifecycle.ground import NOW, ago, ahead

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule
    from tests.lifecycle.ground import Ground


@pytest.mark.parametrize("has_key", [True, False], ids=["a foreign key", "no foreign key"])
@pytest.mark.parametrize(
    "rule",
    [expires("at", wait_for=["node.up"]), cap(1, order_by="at", wait_for=["node.up"])],
    ids=["expires", "cap"],
)
def test_a_row_that_refers_to_itself_goes(ground: Ground, rule: Rule, has_key: bool) -> None:
    reference = "REFERENCES node (id)" if has_key else ""
    ground.run(
        f"CREATE TABLE node (id {{key}}, at {{instant}}, up bigint {reference})",
        "CREATE INDEX by_at ON node (at)",
        "CREATE INDEX by_up ON node (up)",
    )
    # 1 refers to itself alone; 2 does, and a living row refers to it as well.
    ground.fill("node", [(1, ago(days=3), 1), (2, ago(days=2), 2), (3, ahead(days=1), 2)])
    table = Table("node", [rule])

    [foreseen] = plan([Contract("app", [table])], ground.url, clock=ManualClock(NOW))
    report = ground.sweep(table)

    assert (foreseen.rows, report.counts) == (1, {"node": 1})
    assert ground.ids("node") == [2, 3]


def test_a_composite_key_that_refers_to_itself_goes(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE node (a bigint, b bigint, at {instant}, up_a bigint, up_b bigint, PRIMARY KEY (a, b),"
        " FOREIGN KEY (up_a, up_b) REFERENCES node (a, b))",
        "CREATE INDEX by_at ON node (at)",
        "CREATE INDEX by_up ON node (up_a, up_b)",
    )
    ground.fill("node", [(1, 1, ago(days=1), 1, 1), (1, 2, ago(days=1), 1, 2), (1, 3, ahead(days=1), 1, 2)])

    ground.sweep(Table("node", [expires("at", wait_for=["node.up_a,up_b"])]))

    assert ground.ids("node", "b") == [2, 3]
