from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gandy.errors import ContractRefusedError
from gandy.lifecycle import (
    Contract,
    Table,
    cap,
    check,
    drop_partition,
    expires,
    keep,
    older_than,
    stale_cursor,
    sweep,
    terminal,
)
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import OlderThan, Rule
    from gandy.lifecycle.selection.findings import RuleFinding
    from tests.lifecycle.ground import Ground

MANY = 10_050


def findings(ground: Ground, *tables: Table) -> list[RuleFinding]:
    return check([Contract("app", tables)], ground.url)


def make_events(ground: Ground, rows: int) -> None:
    ground.run("CREATE TABLE event (id {key}, status text, kind text NOT NULL, at {instant})")
    if rows:
        ground.fill("event", [(n, "done", "k", ago(minutes=n)) for n in range(rows)])
    if ground.kind == "postgresql":
        ground.run("ANALYZE event")


RULES: list[Rule] = [
    older_than("at", keep_for="1h"),
    terminal("status", states=["done"], at="at", keep_for="1h"),
    cap(5, per=["kind"], order_by="at"),
]


@pytest.mark.parametrize("rule", RULES)
def test_a_large_table_without_an_index_is_refused_and_the_index_it_names_serves(
    ground: Ground, rule: Rule
) -> None:
    make_events(ground, MANY)
    table = Table("event", [rule])

    report = ground.sweep(table)
    assert len(ground.ids("event")) == MANY
    [failure] = report.failures
    statement = re.search(r"CREATE INDEX .*$", failure.error)
    assert statement is not None

    ground.run(statement[0])
    assert findings(ground, table) == []


def test_a_small_table_without_an_index_is_swept_with_a_warning(ground: Ground) -> None:
    make_events(ground, 20)

    report = ground.sweep(Table("event", [older_than("at", keep_for="10m")]))

    assert report.counts == {"event": 10}
    assert ["no index of" in warning.message for warning in report.warnings] == [True]


def test_the_index_is_asked_for_again_as_the_schema_changes(ground: Ground) -> None:
    make_events(ground, MANY)
    ground.run("CREATE INDEX by_age ON event (at)")
    table = Table("event", [older_than("at", keep_for="3650d")])
    assert ground.sweep(table).is_clean

    ground.run("DROP INDEX by_age")

    assert "no index of" in ground.sweep(table).failures[0].error


def test_a_partial_index_that_matches_the_state_serves(ground: Ground) -> None:
    make_events(ground, MANY)
    ground.run("CREATE INDEX by_age ON event (at) WHERE status = 'done'")

    found = findings(ground, Table("event", [terminal("status", states=["done"], at="at", keep_for="1h")]))

    assert found == []


def test_an_index_that_only_sorts_does_not_serve(ground: Ground) -> None:
    """A missing index is invisible in the first batches' timing, but not to EXPLAIN."""
    make_events(ground, MANY)
    ground.run("CREATE INDEX by_kind ON event (kind, at)")

    found = findings(ground, Table("event", [older_than("at", keep_for="1h")]))

    assert ["no index of" in finding.message for finding in found] == [True]


def test_a_reference_without_an_index_on_the_child_side_is_refused(ground: Ground) -> None:
    make_events(ground, 10)
    ground.run("CREATE TABLE note (id {key}, event_id bigint REFERENCES event (id))")
    ground.fill("note", [(n, n % 10) for n in range(MANY)])
    if ground.kind == "postgresql":
        ground.run("ANALYZE note")
    waiting = older_than("at", keep_for="1h", wait_for=["note.event_id"])

    for table in (
        Table("event", [waiting]),
        Table("event", [older_than("at", keep_for="1h")], children={"note.event_id": "delete_first"}),
    ):
        messages = [finding.message for finding in findings(ground, table) if finding.severity == "refused"]
        assert len(messages) == 1
        assert "serves event_id" in messages[0]


WRONG = [
    (Table("nowhere", [expires("at")]), "no such table"),
    (Table("event", [expires("gone")]), "no column gone"),
    (Table("event", [terminal("state", states=["x"], at="at", keep_for="1h")]), "no column state"),
    (Table("event", [cap(1, per=["tenant"], order_by="at")]), "no column tenant"),
    (Table("event", [expires("at", wait_for=["note.event_id"])]), "no table note"),
    (Table("event", [stale_cursor("at", keep_for="1h", log="log", log_at="at")]), "no table log"),
    (Table("event", [expires("at"), keep("hold", equals=True)]), "no column hold"),
    (Table("event", [drop_partition("at", keep_for="1h")]), "partition"),
]


MISREAD = [older_than("status", keep_for="1h"), older_than("at", keep_for="1h", unit="ms")]


@pytest.mark.parametrize("rule", MISREAD)
def test_a_column_that_holds_no_such_instants_is_wrong_by_its_type_and_stops_its_rule_by_its_data(
    ground: Ground, rule: OlderThan
) -> None:
    make_events(ground, 20)
    ground.run("CREATE TABLE fine (id {key}, expires_at {instant})")
    ground.fill("fine", [(1, ago(days=1))])
    contract = Contract("app", [Table("fine", [expires("expires_at")]), Table("event", [rule])])

    if ground.kind == "postgresql":
        with pytest.raises(ContractRefusedError, match=rule.column):
            sweep([contract], ground.url)
        assert ground.ids("fine") == [1]
        return
    [report] = sweep([contract], ground.url)

    assert [failure.table for failure in report.failures] == ["event"]
    assert ground.ids("fine") == []


@pytest.mark.parametrize(("table", "words"), WRONG)
def test_a_contract_that_does_not_fit_is_refused_before_anything_is_deleted(
    ground: Ground, table: Table, words: str
) -> None:
    make_events(ground, 20)
    ground.run("CREATE TABLE fine (id {key}, expires_at {instant})")
    ground.fill("fine", [(1, ago(days=1))])

    with pytest.raises(ContractRefusedError) as refused:
        sweep([Contract("app", [Table("fine", [expires("expires_at")]), table])], ground.url)

    assert ground.ids("fine") == [1]
    assert words in str(refused.value)
    assert "lifecycle.app" in str(refused.value)
    assert f"table {table.name}" in str(refused.value)


@pytest.mark.parametrize(
    ("unit", "scale", "words"), [("ms", 1, "looks like seconds"), ("s", 1000, "looks like milli")]
)
def test_an_epoch_whose_unit_looks_wrong_is_refused(
    ground: Ground, unit: str, scale: int, words: str
) -> None:
    ground.run("CREATE TABLE lease (id {key}, expires_at bigint)", "CREATE INDEX by_at ON lease (expires_at)")
    ground.fill("lease", [(n, int((ago(days=n)).timestamp()) * scale) for n in range(1, 9)])

    report = ground.sweep(Table("lease", [expires("expires_at", unit=unit)]))

    assert len(ground.ids("lease")) == 8
    assert words in report.failures[0].error


def test_tables_and_columns_with_difficult_names_are_quoted(ground: Ground) -> None:
    ground.run(
        'CREATE TABLE "Order; DROP TABLE x--" ("Key" {key}, "created at" {instant})',
        'CREATE INDEX odd ON "Order; DROP TABLE x--" ("created at")',
    )
    ground.fill('"Order; DROP TABLE x--"', [(1, ago(days=2)), (2, ago(hours=1))])

    report = ground.sweep(Table("Order; DROP TABLE x--", [older_than("created at", keep_for="1d")]))

    assert report.counts == {"Order; DROP TABLE x--": 1}
    assert ground.ids('"Order; DROP TABLE x--"', '"Key"') == [2]


def test_a_table_of_another_schema_is_found(postgres: Ground) -> None:
    postgres.run(
        "CREATE SCHEMA billing",
        "CREATE TABLE billing.event (id bigint PRIMARY KEY, at timestamptz)",
        "CREATE TABLE event (id bigint PRIMARY KEY, at timestamptz)",
    )
    postgres.fill("billing.event", [(1, ago(days=2))])
    postgres.fill("event", [(1, ago(days=2))])

    report = postgres.sweep(Table("event", [older_than("at", keep_for="1d")], schema="billing"))

    assert report.counts == {"billing.event": 1}
    assert (postgres.ids("billing.event"), postgres.ids("event")) == ([], [1])


def test_a_table_without_a_key_is_swept_all_the_same(ground: Ground) -> None:
    ground.run("CREATE TABLE heap (at {instant}, note text)")
    ground.fill("heap", [(ago(days=n), "x") for n in range(10)] + [(ago(days=9), "twin")])

    report = ground.sweep(Table("heap", [older_than("at", keep_for="5d12h")]))

    assert report.counts == {"heap": 5}
    assert len(ground.rows("SELECT * FROM heap")) == 6


def test_a_timestamp_without_a_zone_is_read_as_utc_and_said_so(postgres: Ground) -> None:
    postgres.run("ALTER ROLE CURRENT_USER SET timezone = 'Asia/Tokyo'")
    postgres.run("CREATE TABLE event (id bigint PRIMARY KEY, at timestamp)")
    try:
        postgres.fill(
            "event", [(1, ago(hours=2).replace(tzinfo=None)), (2, ago(minutes=30).replace(tzinfo=None))]
        )
        table = Table("event", [older_than("at", keep_for="1h")])
        assert [f.message for f in findings(postgres, table)][-1] == "at has no time zone; it is read as UTC"
        postgres.sweep(table)
    finally:
        postgres.run("ALTER ROLE CURRENT_USER RESET timezone")

    assert postgres.ids("event") == [2]


def test_a_date_is_old_only_once_its_whole_day_is(postgres: Ground) -> None:
    postgres.run("CREATE TABLE event (id bigint PRIMARY KEY, day date)")
    postgres.fill("event", [(n, ago(days=n).date()) for n in range(5)])

    postgres.sweep(Table("event", [older_than("day", keep_for="2d")]))

    assert postgres.ids("event") == [0, 1, 2]
    assert NOW.hour == 12
