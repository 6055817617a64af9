"""Rows that wait for rows of their own table: a row's reference to itself does not hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, cap, expires, keep, older_than, plan, run_contracts
from gandy.sweep import Budget
from tests.lifecycle.counting import counted
from tests.lifecycle.ground import NOW, ago, ahead, steps_of

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


def make_chain(ground: Ground, reference: str = "REFERENCES node (id)") -> None:
    ground.run(
        f"CREATE TABLE node (id {{key}}, at {{instant}}, kind text, up bigint {reference}, hold {{flag}})",
        "CREATE INDEX by_at ON node (at)",
        "CREATE INDEX by_kind ON node (kind, at)",
        "CREATE INDEX by_up ON node (up)",
    )


def fill_chain(ground: Ground, rows: int, *, kept: int = 0) -> None:
    """Make every row refer to the row before it in the walk's order; the last ones refer to none."""
    ground.fill(
        "node",
        [
            (number, ago(days=9_000 - number), "x", number - 1 if 1 < number <= rows else None, number == 20)
            for number in range(1, rows + kept + 1)
        ],
    )


@pytest.mark.parametrize("has_key", [True, False], ids=["a foreign key", "no foreign key"])
@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (older_than("at", keep_for="1d", wait_for=["node.up"]), 0),
        (cap(2, per=["kind"], order_by="at", wait_for=["node.up"]), 2),
    ],
    ids=["older_than", "cap"],
)
def test_a_chain_against_the_order_is_followed_in_a_few_passes(
    ground: Ground, rule: Rule, kept: int, *, has_key: bool
) -> None:
    make_chain(ground, "REFERENCES node (id)" if has_key else "")
    fill_chain(ground, 60, kept=kept)

    with counted() as sent:
        report = ground.sweep(Table("node", [rule]))

    assert (report.failures, report.counts) == ([], {"node": 60})
    assert ground.ids("node") == list(range(61, 61 + kept))
    searches = [text for text in sent.statements if "OFFSET" in text and "up = " in text]
    assert (
        len(searches) < 10
    )  # for the end of a batch; once for each row of the chain, if it were not followed


@pytest.mark.parametrize("step", [1, 7])
def test_a_chain_is_followed_in_batches_of_any_size(ground: Ground, step: int) -> None:
    make_chain(ground)
    fill_chain(ground, 40)
    waiting = older_than("at", keep_for="1d", wait_for=["node.up"])
    by = SweepOptions(clock=ManualClock(NOW))

    [report] = run_contracts(
        [Contract("app", [Table("node", [waiting])], batch=steps_of(step))], ground.url, options=by
    )

    assert (report.counts, ground.ids("node")) == ({"node": 40}, [])
    assert report.rules[0].batches >= 40 / step


def test_a_chain_ends_at_a_row_that_is_held(ground: Ground) -> None:
    make_chain(ground)
    fill_chain(ground, 60)

    ground.sweep(
        Table("node", [older_than("at", keep_for="1d", wait_for=["node.up"]), keep("hold", equals=True)])
    )

    assert ground.ids("node") == list(range(1, 21))


def test_a_chain_ends_at_a_row_that_lives_or_is_still_referred_to(ground: Ground) -> None:
    make_chain(ground)
    fill_chain(ground, 60)
    ground.fill("node", [(100, ahead(days=1), "x", 30, False)])

    ground.sweep(Table("node", [older_than("at", keep_for="1d", wait_for=["node.up"])]))

    assert ground.ids("node") == [*range(1, 31), 100]


def test_a_chain_goes_with_what_hangs_on_its_rows_and_around_a_refused_one(ground: Ground) -> None:
    make_chain(ground)
    ground.run(
        "CREATE TABLE note (id {key}, node_id bigint REFERENCES node (id),"
        " CHECK (id <> 25 OR node_id IS NOT NULL))",
        "CREATE INDEX by_node ON note (node_id)",
    )
    fill_chain(ground, 60)
    ground.fill("note", [(number, number) for number in range(1, 61)])
    waiting = older_than("at", keep_for="1d", wait_for=["node.up"])

    report = ground.sweep(Table("node", [waiting], children={"note.node_id": "set_null"}))

    assert ground.ids("node") == list(range(1, 26))
    assert report.rules[0].set_aside == 1


def test_a_budget_of_rows_ends_a_chain(ground: Ground) -> None:
    make_chain(ground)
    fill_chain(ground, 60)
    waiting = older_than("at", keep_for="1d", wait_for=["node.up"])
    by = SweepOptions(clock=ManualClock(NOW))

    [report] = run_contracts(
        [Contract("app", [Table("node", [waiting])], budget=Budget(rows=25))], ground.url, options=by
    )

    assert (report.counts, len(ground.ids("node"))) == ({"node": 25}, 35)


def test_a_chain_ends_at_a_row_that_a_trigger_inserts_again(ground: Ground) -> None:
    make_chain(ground)
    fill_chain(ground, 9)
    back = "INSERT INTO node VALUES (OLD.id, OLD.at, OLD.kind, OLD.up, OLD.hold);"
    if ground.kind == "sqlite":
        ground.run(f"CREATE TRIGGER again AFTER DELETE ON node WHEN OLD.id = 5 BEGIN {back} END")
    else:
        ground.run(
            f"CREATE FUNCTION back() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {back} RETURN NULL; END $$",
            "CREATE TRIGGER again AFTER DELETE ON node FOR EACH ROW WHEN (OLD.id = 5)"
            " EXECUTE FUNCTION back()",
        )

    report = ground.sweep(
        Table("node", [older_than("at", keep_for="1d", wait_for=["node.up"])], triggers=["again"])
    )

    assert (report.counts, ground.ids("node")) == ({"node": 4}, [1, 2, 3, 4, 5])
    assert report.rules[0].set_aside == 1
