"""A keep on a partition or an inheriting table counts for the table that it belongs to, and vice versa."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, drop_partition, keep, older_than, run_contracts
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground

RULE = older_than("at", keep_for="7d")
HELD = keep("held", equals=True)
PARTITIONED = (
    """CREATE TABLE root (id bigint, at timestamptz, held boolean, PRIMARY KEY (id, at))
    PARTITION BY RANGE (at)""",
    "CREATE TABLE member PARTITION OF root FOR VALUES FROM (MINVALUE) TO ('2026-02-25')",
)
INHERITED = (
    "CREATE TABLE root (id bigint PRIMARY KEY, at timestamptz, held boolean)",
    "CREATE TABLE member (PRIMARY KEY (id)) INHERITS (root)",
)


@pytest.mark.parametrize("are_two", [False, True], ids=["one contract", "another contract"])
@pytest.mark.parametrize(("swept", "kept"), [("root", "member"), ("member", "root")])
@pytest.mark.parametrize("made", [PARTITIONED, INHERITED], ids=["partition", "inheriting"])
def test_a_held_row_stays_whichever_of_the_two_is_swept(
    postgres: Ground, made: tuple[str, ...], swept: str, kept: str, *, are_two: bool
) -> None:
    postgres.run(*made, "CREATE INDEX ON member (at, id)")
    postgres.fill("member", [(1, ago(days=9), True), (2, ago(days=9), False)])
    holding = Table(kept, [HELD])
    contracts = (
        [Contract("legal", [holding]), Contract("sweeps", [Table(swept, [RULE])])]
        if are_two
        else [Contract("sweeps", [Table(swept, [RULE]), holding])]
    )

    for contract in contracts:  # each by a process of its own
        run_contracts([contract], postgres.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert postgres.ids("root") == [1]


def test_a_row_held_in_a_partition_keeps_it_from_being_dropped(postgres: Ground) -> None:
    postgres.run(*PARTITIONED)
    postgres.fill("member", [(1, ago(days=9), True), (2, ago(days=9), False)])

    report = postgres.sweep(Table("root", [drop_partition("at", keep_for="1d")]), Table("member", [HELD]))

    assert report.failures == []
    assert postgres.ids("root") == [1, 2]


def test_a_row_held_in_a_partition_of_a_child_keeps_its_parent(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE parent (id bigint PRIMARY KEY, at timestamptz)",
        "CREATE INDEX ON parent (at, id)",
        "CREATE TABLE root (id bigint PRIMARY KEY, parent_id bigint REFERENCES parent ON DELETE CASCADE,"
        " held boolean) PARTITION BY RANGE (id)",
        "CREATE TABLE member PARTITION OF root FOR VALUES FROM (0) TO (100)",
    )
    postgres.fill("parent", [(1, ago(days=9)), (2, ago(days=9))])
    postgres.fill("root", [(10, 1, True), (20, 2, False)])

    postgres.sweep(Table("parent", [RULE], children={"root.parent_id": "cascade"}), Table("member", [HELD]))

    assert (postgres.ids("parent"), postgres.ids("root")) == ([1], [10])
