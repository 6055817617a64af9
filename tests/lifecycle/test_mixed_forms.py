"""A column of SQLite that writes instants in more than one way: most rows decide, the others stay."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, Table, check, older_than, plan
from gandy.lifecycle.selection.findings import Severity
from tests.lifecycle.ground import NOW, ago, ahead

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lifecycle.ground import Ground

RULE = older_than("at", keep_for="1h")
FORMS: dict[str, Callable[[datetime], object]] = {
    "T": lambda at: at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "space": lambda at: at.strftime("%Y-%m-%d %H:%M:%S"),
    "day": lambda at: at.strftime("%Y-%m-%d"),
    "seconds": lambda at: int(at.timestamp()),
}
PAIRS = [(usual, other) for usual in FORMS for other in FORMS if usual != other]
# Where the rows in another form are: before or behind all the others, or at their instants.
PLACES = {
    "low": [ago(days=5000 + n) for n in range(30)],
    "high": [ahead(days=5000 + n) for n in range(30)],
    "both": [ago(days=5000), ahead(days=5000)],
    "among": [ago(days=n) for n in range(3, 13)],
    "dead and alive": [ago(days=5000), ago(hours=30), ago(minutes=30), ahead(days=1)],
}


def make(sqlite: Ground, values: list[object]) -> None:
    sqlite.run("CREATE TABLE event (id INTEGER PRIMARY KEY, at)", "CREATE INDEX event_at ON event (at)")
    sqlite.fill("event", list(enumerate(values)))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("usual", "other"), PAIRS)
def test_rows_in_another_form_stay_and_are_counted_and_the_others_go(
    sqlite: Ground, usual: str, other: str, place: str
) -> None:
    old = [ago(days=2 + n / 7) for n in range(300)]
    new = [NOW + timedelta(hours=n) for n in range(100)]
    odd = [FORMS[other](at) for at in PLACES[place]]
    make(sqlite, [*map(FORMS[usual], old[:150]), *odd, *map(FORMS[usual], [*old[150:], *new])])
    contract = Contract("app", [Table("event", [RULE])])

    findings = check([contract], sqlite.url, clock=ManualClock(NOW))
    [planned] = plan([contract], sqlite.url, clock=ManualClock(NOW))
    report = sqlite.sweep(*contract.tables)

    assert [found.severity for found in findings] == [Severity.WARNING]
    assert " rows are kept" in findings[0].message
    assert " rows are kept" in planned.warnings[0]
    assert planned.rows == report.counts["event"] == len(old)
    left = [row[0] for row in sqlite.rows("SELECT at FROM event ORDER BY id")]
    assert left == [*odd, *map(FORMS[usual], new)]
    again = sqlite.sweep(*contract.tables)  # now they are at the end of the column, wherever they were
    assert (again.counts, " rows are kept" in again.warnings[0].message) == ({}, True)


@pytest.mark.parametrize("share", [0.4, 0.5, 0.6])
@pytest.mark.parametrize(("usual", "other"), PAIRS)
def test_without_a_form_that_prevails_the_rule_is_refused(
    sqlite: Ground, usual: str, other: str, share: float
) -> None:
    at = [ago(days=2 + n) for n in range(10)]
    split = int(share * len(at))
    make(sqlite, [*map(FORMS[usual], at[:split]), *map(FORMS[other], at[split:])])

    [failure] = sqlite.sweep(Table("event", [RULE])).failures

    assert "more than one form" in failure.error
    assert any(repr(FORMS[usual](each)) in failure.error for each in at[:split])
    assert any(repr(FORMS[other](each)) in failure.error for each in at[split:])
    assert len(sqlite.ids("event")) == len(at)


@pytest.mark.parametrize(("rows", "is_clear"), [(1, False), (2, True), (9, True)])
def test_two_of_three_prevail(sqlite: Ground, rows: int, *, is_clear: bool) -> None:
    values = [FORMS["T"](ago(days=n)) for n in range(2, 2 + rows)]
    make(sqlite, [*values, FORMS["space"](ago(days=1000))])

    report = sqlite.sweep(Table("event", [RULE]))

    assert (report.failures == []) == is_clear
    assert report.counts.get("event", 0) == (rows if is_clear else 0)
