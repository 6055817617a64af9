"""Columns of SQLite tables that are called as the row id is, and hide it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    cap,
    check,
    keep,
    keep_last,
    older_than,
    plan,
    run_contracts,
    stale_cursor,
    terminal,
)
from gandy.lifecycle.selection.findings import Severity
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lifecycle.ground import Ground

_HIDING = [
    *((("rowid",), value) for value in ("one", "none", "few")),
    *((names, "few") for names in [("ROWID", "_rowid_"), ("RowId", "oid")]),
]
_ALL = ("oid", "rowid", "_rowid_")
_PARTS = {"one": 1, "few": 4}  # how many values the column has; else it is NULL
_AGED = older_than("at", keep_for="7d")
_RULES = {
    "older_than": Table("event", [_AGED]),
    "wait_for": Table("event", [older_than("at", keep_for="7d", wait_for=["child.code"])]),
    "terminal": Table("event", [terminal("state", states=["done"], at="at", keep_for="7d")]),
    "keep_last": Table("event", [keep_last(5, order_by="at")]),
    "cap": Table("event", [cap(3, per=["state"], order_by="at")]),
    "stale_cursor": Table("event", [stale_cursor("at", keep_for="1d", log="log", log_at="at")]),
    "delete_first": Table("event", [_AGED], children={"child.code": "delete_first"}),
    "cascade": Table("event", [_AGED], children={"child.code": "cascade"}),
    "set_null": Table("event", [_AGED], children={"child.code": "set_null"}),
}


def _make(ground: Ground, *names: str, value: str, key: str) -> None:
    named = "".join(f", {name} int" for name in names)
    ground.run(
        f"CREATE TABLE event (code int UNIQUE, state text, at {{instant}}{named})",
        f"CREATE TABLE child (code int {key}, held int{named})",
        "CREATE TABLE log (at {instant} NOT NULL)",
        "CREATE INDEX by_age ON event (at)",
        "CREATE INDEX by_state ON event (state, at)",
        "CREATE INDEX by_parent ON child (code)",
        "CREATE INDEX by_log ON log (at)",
    )
    numbers = {n: n % _PARTS[value] if value in _PARTS else None for n in range(1, 19)}
    values = {n: [number] * len(names) for n, number in numbers.items()}
    states = ["done", "new", "done"]
    ground.fill("event", [(n, states[n % 3], ago(days=20 - n), *values[n]) for n in numbers])
    ground.fill("child", [(n, n == 4, *values[n]) for n in numbers if n % 2 == 0])
    ground.fill("log", [(ago(days=10),)])


def _swept(ground: Ground, table: Table) -> tuple[object, ...]:
    """What a plan foretells, what a sweep counts, and which rows are left, by their own marks."""
    contract = Contract("app", [table, Table("child", [keep("held", equals=True)])])
    by = SweepOptions(clock=ManualClock(NOW))
    planned = [(each.rows, each.children) for each in plan([contract], ground.url, clock=by.clock)]
    [report] = run_contracts([contract], ground.url, options=by)
    left = [ground.ids("event", "code"), ground.ids("child", "code")]
    failures = [failure.error for failure in report.failures]
    return planned, report.counts, left, failures


@pytest.mark.parametrize("rule", _RULES)
def test_a_column_that_is_called_as_the_row_id_changes_nothing(
    sqlite: Ground, tmp_path: Path, rule: str
) -> None:
    """The judge is the same table with a column of another name."""
    key = {
        "wait_for": "REFERENCES event (code)",
        "delete_first": "REFERENCES event (code)",
        "cascade": "REFERENCES event (code) ON DELETE CASCADE",
        "set_null": "REFERENCES event (code)",
    }.get(rule, "")
    _make(sqlite, "x", value="few", key=key)
    expected = _swept(sqlite, _RULES[rule])

    for number, (names, value) in enumerate(_HIDING):
        ground = type(sqlite)(f"sqlite:///{tmp_path / f'{number}.db'}")
        _make(ground, *names, value=value, key=key)

        assert _swept(ground, _RULES[rule]) == expected, (names, value)

    assert len(sqlite.ids("event", "code")) < 18


@pytest.mark.parametrize("rule", ["older_than", "keep_last", "delete_first"])
def test_a_table_that_hides_each_name_of_its_row_id_is_refused(sqlite: Ground, rule: str) -> None:
    """The rows of the child cannot be told apart either: it hides them too."""
    _make(sqlite, *_ALL, value="one", key="REFERENCES event (code)" if rule == "delete_first" else "")

    found = check([Contract("app", [_RULES[rule]])], sqlite.url)
    report = sqlite.sweep(_RULES[rule])

    assert any(each.severity is Severity.REFUSED and "hide the row id" in str(each) for each in found)
    assert "hide the row id" in report.failures[0].error
    assert sqlite.rows("SELECT count(*) FROM event") == [(18,)]


@pytest.mark.parametrize("mode", ["delete_first", "set_null"])
def test_a_child_that_hides_each_name_of_its_row_id_stops_its_parents_rule(sqlite: Ground, mode: str) -> None:
    sqlite.run(
        "CREATE TABLE event (id {key}, at {instant})",
        "CREATE TABLE child (event_id int REFERENCES event (id), oid int, rowid int, _rowid_ int)",
        "CREATE INDEX by_age ON event (at)",
    )
    sqlite.fill("event", [(1, ago(days=9))])
    sqlite.fill("child", [(1, 1, 1, 1)])

    report = sqlite.sweep(Table("event", [_AGED], children={"child.event_id": mode}))

    assert "child has columns that hide the row id" in report.failures[0].error
    assert (sqlite.ids("event"), sqlite.ids("child", "event_id")) == ([1], [1])
