"""Numbers as instants: the unit is certain, or nothing goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    Table,
    check,
    drop_partition,
    expires,
    inline,
    older_than,
    plan,
    stale_cursor,
    terminal,
)
from tests.lifecycle.ground import NOW, ago, ahead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.lifecycle.contract.rules import Rule
    from gandy.lifecycle.reports.plan import PlannedRule
    from gandy.lifecycle.selection.findings import RuleFinding
    from tests.lifecycle.ground import Ground

LARGEST = 2**63 - 1
SCALES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNITS = [*SCALES, "yyyymmdd"]


def number(instant: datetime, unit: str) -> int:
    if unit == "yyyymmdd":
        return int(instant.astimezone(UTC).strftime("%Y%m%d"))
    return int(instant.timestamp()) * SCALES[unit]


def make(ground: Ground, values: Sequence[object], *, declared: str = "bigint") -> None:
    ground.run(f"CREATE TABLE event (id {{key}}, at {declared})", "CREATE INDEX by_at ON event (at)")
    if values:
        ground.fill("event", list(enumerate(values)))


def findings(ground: Ground, rule: Rule, *others: Rule) -> list[RuleFinding]:
    return check([Contract("app", [Table("event", [rule, *others])])], ground.url, clock=ManualClock(NOW))


def planned(ground: Ground, rule: Rule) -> PlannedRule:
    [only] = plan([Contract("app", [Table("event", [rule])])], ground.url, clock=ManualClock(NOW))
    return only


COLUMNS = {
    "postgresql": ["bigint", "numeric", "double precision"],
    "sqlite": ["INTEGER", "NUMERIC", "REAL", "DATETIME", "TEXT", ""],
}


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_that_is_given_or_shown_by_the_data_is_read(ground: Ground, unit: str) -> None:
    for place, declared in enumerate(COLUMNS[ground.kind]):
        rule = older_than("at", keep_for="2d", unit=unit if place % 2 else None)
        ground.run("DROP TABLE IF EXISTS event")
        make(ground, [number(ago(days=n), unit) for n in (0, 1, 3, 9)], declared=declared)

        report = ground.sweep(Table("event", [rule]))

        assert (report.failures, ground.ids("event")) == ([], [0, 1]), declared


def test_a_day_is_old_only_once_it_is_over_in_utc(ground: Ground) -> None:
    make(ground, [20260228, 20260227, 20260226], declared="integer")

    ground.sweep(Table("event", [older_than("at", keep_for="2d", unit="yyyymmdd")]))

    assert ground.ids("event") == [0, 1]


@pytest.mark.parametrize("at", ["2026-03-01T00:00:00+14:00", "2026-03-01T23:59:59-12:00"])
def test_a_day_goes_by_utc_whatever_zone_the_clock_is_in(ground: Ground, at: str) -> None:
    now = datetime.fromisoformat(at)
    days = [now.astimezone(UTC) - timedelta(days=n) for n in (0, 1, 2)]
    make(ground, [number(day, "yyyymmdd") for day in days], declared="integer")

    ground.sweep(Table("event", [expires("at", unit="yyyymmdd")]), now=now)

    assert ground.ids("event") == [0]


@pytest.mark.parametrize(
    ("what", "values"),
    [
        ("days as YYYYMMDD", [20260101 + n for n in range(28)]),
        ("minutes", [int(ahead(days=n).timestamp()) // 60 for n in range(50)]),
        ("days since 1970", [int(ahead(days=n).timestamp()) // 86_400 for n in range(50)]),
    ],
)
def test_numbers_of_another_unit_are_never_taken_for_seconds(
    ground: Ground, what: str, values: list[object]
) -> None:
    """Live rows whose number is small: read as seconds they would have expired in 1970."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    make(ground, values)

    for unit in ("s", None):
        report = ground.sweep(Table("event", [expires("at", unit=unit)]), now=now)

        assert len(ground.ids("event")) == len(values), what
        assert report.failures or report.warnings or what == "days as YYYYMMDD"


@pytest.mark.parametrize("real", UNITS)
def test_a_given_unit_is_refused_where_the_values_fit_another(ground: Ground, real: str) -> None:
    make(ground, [number(ago(days=n), real) for n in range(1, 9)])
    given = [unit for unit in UNITS if unit != real]

    messages = [str(found) for unit in given for found in findings(ground, expires("at", unit=unit))]
    report = ground.sweep(Table("event", [expires("at", unit=given[0])]))

    assert ["looks like" in message and "yyyymmdd" in message for message in messages] == [True] * 4
    assert (len(report.failures), len(ground.ids("event"))) == (1, 8)


def test_microseconds_are_read_as_what_they_are(ground: Ground) -> None:
    make(ground, [number(ago(days=1), "us"), number(ahead(days=1), "us")])

    assert ground.sweep(Table("event", [expires("at")])).counts == {"event": 1}


def test_a_column_in_two_units_needs_a_unit_and_keeps_the_values_of_the_other(ground: Ground) -> None:
    seconds = [number(ago(days=n), "s") for n in range(1, 6)]
    make(ground, [*seconds, number(ago(days=1), "ms")])

    refused = ground.sweep(Table("event", [expires("at")]))
    assert len(ground.ids("event")) == 6
    assert "seconds since 1970" in refused.failures[0].error
    assert "milliseconds since 1970" in refused.failures[0].error

    assert ground.sweep(Table("event", [expires("at", unit="s")])).counts == {"event": 5}
    assert ground.ids("event") == [5]


PLACEHOLDERS: dict[str, list[object]] = {
    "bigint": [0, -1, LARGEST, -LARGEST],
    "numeric": [0, -1, Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity"), Decimal(10) ** 30],
    "double precision": [0.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e300],
}


@pytest.mark.parametrize(
    ("declared", "unit"), [("bigint", None), ("numeric", "s"), ("double precision", None)]
)
def test_values_that_fit_no_unit_are_kept_counted_and_reported(
    ground: Ground, declared: str, unit: str | None
) -> None:
    odd = PLACEHOLDERS[declared]
    if ground.kind == "sqlite":  # it stores a NaN as NULL, and no Decimal
        odd = [
            float(value) if isinstance(value, Decimal) else value
            for value in odd
            if str(value).casefold() != "nan"
        ]
    make(ground, [number(ago(days=1), "s"), None, *odd], declared=declared)
    rule = expires("at", unit=unit)

    found = findings(ground, rule)
    foreseen = planned(ground, rule)
    report = ground.sweep(Table("event", [rule]))

    assert report.counts == {"event": 1}
    assert len(ground.ids("event")) == len(odd) + 1
    assert [f.severity for f in found] == ["warning"]
    assert f"{len(odd)} rows are kept" in found[0].message
    assert f"{len(odd)} rows are kept" in str(foreseen.warnings)
    assert foreseen.rows == 1


@pytest.mark.parametrize("values", [[], [None], [0, -1, LARGEST]])
def test_a_column_that_shows_no_unit_makes_the_rule_wait(ground: Ground, values: list[object]) -> None:
    make(ground, values)
    rule = expires("at")

    found = findings(ground, rule)
    report = ground.sweep(Table("event", [rule]))

    assert [f.severity for f in found] == ["warning"]
    assert "unit is unknown" in found[0].message
    assert (report.failures, report.deleted) == ([], 0)
    assert len(ground.ids("event")) == len(values)
    assert planned(ground, rule).refused is None


def test_an_empty_column_of_a_given_unit_is_in_order(ground: Ground) -> None:
    make(ground, [])

    assert findings(ground, expires("at", unit="ns")) == []


def test_a_value_of_another_unit_that_arrives_later_stays(ground: Ground) -> None:
    make(ground, [number(ago(days=1), "ms"), number(ahead(days=9), "ms")])
    rule = expires("at")
    assert ground.sweep(Table("event", [rule])).counts == {"event": 1}

    ground.fill("event", [(n + 10, number(ago(days=1), unit)) for n, unit in enumerate(UNITS)])

    ground.sweep(Table("event", [expires("at", unit="ms")]))
    assert ground.ids("event") == [1, 10, 12, 13, 14]


def test_a_number_that_is_no_day_of_the_calendar_is_kept(ground: Ground) -> None:
    wrong = [20260230, 20251301, 20250100, 20250229, 20240230, 21000229, 20250631]
    make(ground, [*wrong, 20240229, 20250228, 20251231, 20000229])
    now = datetime(2101, 1, 1, tzinfo=UTC)

    report = ground.sweep(Table("event", [expires("at", unit="yyyymmdd")]), now=now)

    assert report.counts == {"event": 4}
    assert ground.ids("event") == list(range(7))
    assert "7 rows are kept" in str(report.warnings)


@pytest.mark.parametrize("rows", [30, 11_000])
def test_ends_that_are_placeholders_do_not_hide_the_unit_between(ground: Ground, rows: int) -> None:
    values = [0] * rows + [number(ago(days=1), "ms")] + [LARGEST] * rows
    make(ground, values)

    report = ground.sweep(Table("event", [expires("at")]))

    assert report.counts == {"event": 1}
    assert f"{'more than 10,000' if rows > 10_000 else '60'} rows are kept" in str(report.warnings)


@pytest.mark.parametrize("unit", ["ns", "yyyymmdd", None])
def test_terminal_reads_the_unit_of_its_instant(ground: Ground, unit: str | None) -> None:
    ground.run(
        "CREATE TABLE event (id {key}, status text, at bigint)", "CREATE INDEX by_state ON event (status, at)"
    )
    ages = enumerate([1, 5, 1, 5])
    ground.fill(
        "event", [(n, "done" if n < 2 else "new", number(ago(days=age), unit or "ns")) for n, age in ages]
    )

    report = ground.sweep(
        Table("event", [terminal("status", states=["done"], at="at", keep_for="2d", unit=unit)])
    )

    assert report.counts == {"event": 1}
    assert ground.ids("event") == [0, 2, 3]


@pytest.mark.parametrize("unit", ["ns", "yyyymmdd", None])
def test_stale_cursor_compares_in_the_unit_of_both(ground: Ground, unit: str | None) -> None:
    real = unit or "us"
    ground.run(
        "CREATE TABLE log (id {key}, at bigint)",
        "CREATE INDEX by_log ON log (at)",
        "CREATE TABLE reader (id {key}, at bigint)",
        "CREATE INDEX by_reader ON reader (at)",
    )
    ground.fill("log", [(1, number(ago(days=4), real))])
    ground.fill("reader", [(1, number(ago(days=9), real)), (2, number(ago(days=3), real))])
    rule = stale_cursor("at", keep_for="2d", log="log", log_at="at", unit=unit)

    report = ground.sweep(Table("reader", [rule]))

    assert (report.failures, ground.ids("reader")) == ([], [2])


def test_a_log_in_another_unit_counts_as_unread(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE log (id {key}, at bigint)",
        "CREATE INDEX by_log ON log (at)",
        "CREATE TABLE reader (id {key}, at bigint)",
        "CREATE INDEX by_reader ON reader (at)",
    )
    ground.fill("reader", [(1, number(ago(days=9), "s"))])
    ground.fill("log", [(1, number(ago(days=20), "ms")), *((n, number(NOW, "s")) for n in range(2, 9))])

    ground.sweep(Table("reader", [stale_cursor("at", keep_for="2d", log="log", log_at="at", unit="s")]))

    assert ground.ids("reader") == [1]


@pytest.mark.parametrize("unit", ["ns", "yyyymmdd", None])
def test_an_inline_path_is_watched_in_its_unit(ground: Ground, unit: str | None) -> None:
    make(ground, [number(ahead(days=3), unit or "ms"), number(ago(days=3), unit or "ms")])

    report = ground.sweep(Table("event", [inline("delivery", at="at", alarm_after="1h", unit=unit)]))

    assert [overdue.path for overdue in report.overdue] == ["delivery"]
    assert report.overdue[0].oldest is not None
    assert abs(ago(days=3) - report.overdue[0].oldest) < timedelta(days=1)


@pytest.mark.parametrize("unit", ["ns", "yyyymmdd", None])
def test_partitions_end_in_their_unit_and_a_strange_number_keeps_one(
    postgres: Ground, unit: str | None
) -> None:
    real = unit or "ms"
    old, new = number(ago(days=9), real), number(ahead(days=9), real)
    postgres.run(
        "CREATE TABLE event (id bigint, at bigint) PARTITION BY RANGE (at)",
        f"CREATE TABLE event_odd PARTITION OF event FOR VALUES FROM (MINVALUE) TO ({old - 2})",
        f"CREATE TABLE event_old PARTITION OF event FOR VALUES FROM ({old - 2}) TO ({old + 1})",
        f"CREATE TABLE event_new PARTITION OF event FOR VALUES FROM ({old + 1}) TO ({new})",
    )
    postgres.fill("event", [(1, 0), (2, old), (3, number(NOW, real))])
    rule = drop_partition("at", keep_for="2d", unit=unit)

    expected = planned(postgres, rule)
    report = postgres.sweep(Table("event", [rule]))

    assert (report.failures, expected.rows) == ([], 1)
    assert postgres.ids("event") == [1, 3]
