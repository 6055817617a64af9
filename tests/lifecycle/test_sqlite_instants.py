"""SQLite has no timestamps: what applications write instead, and what is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import String, literal
from sqlalchemy.dialects import sqlite as sqlite_dialect

from gandy.lifecycle import Table, older_than
from gandy.lifecycle.database.instants import Form, InstantKind, form_of_texts, is_before, unit_problem
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground

RULE = older_than("at", keep_for="1h")
FORMS = [
    "%Y-%m-%dT%H:%M:%S.%fZ",
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%d %H:%M:%S+00:00",
    "%Y-%m-%dT%H:%M:%S.%f+00:00",
]


def make(sqlite: Ground, declared: str, values: list[object]) -> None:
    sqlite.run(f"CREATE TABLE event (id INTEGER PRIMARY KEY, at {declared})")
    sqlite.fill("event", list(enumerate(values)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("declared", ["TEXT", "DATETIME", "TIMESTAMP"])
def test_instants_written_as_text_are_compared_as_instants(sqlite: Ground, form: str, declared: str) -> None:
    at = [ago(minutes=59), ago(minutes=61), ago(days=9), NOW + timedelta(days=1)]
    make(sqlite, declared, [instant.strftime(form) for instant in at])

    report = sqlite.sweep(Table("event", [RULE]))

    assert report.is_clean
    assert sqlite.ids("event") == [0, 3]


@pytest.mark.parametrize(
    ("declared", "unit", "scale"),
    [("INTEGER", None, 1), ("REAL", "s", 1.0), ("DATETIME", None, 1), ("BIGINT", "ms", 1000)],
)
def test_instants_written_as_numbers_are_read_in_their_unit(
    sqlite: Ground, declared: str, unit: str | None, scale: float
) -> None:
    make(sqlite, declared, [ago(minutes=59).timestamp() * scale, ago(minutes=61).timestamp() * scale])

    sqlite.sweep(Table("event", [older_than("at", keep_for="1h", unit=unit)]))

    assert sqlite.ids("event") == [0]


def test_a_date_alone_is_old_only_once_its_whole_day_is(sqlite: Ground) -> None:
    make(sqlite, "DATE", [(NOW - timedelta(days=n)).strftime("%Y-%m-%d") for n in range(5)])

    sqlite.sweep(Table("event", [older_than("at", keep_for="2d")]))

    assert sqlite.ids("event") == [0, 1, 2]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["2020-01-01T00:00:00Z", "2020-01-01 00:00:00"], "more than one form"),
        (["2020-01-01T00:00:00+02:00"], "an offset other than UTC"),
        (["yesterday"], "not an instant as text"),
        (["01/02/2020"], "not an instant as text"),
        ([2458849.5], "not an instant"),
    ],
)
def test_texts_that_do_not_sort_as_instants_are_refused(
    sqlite: Ground, values: list[object], words: str
) -> None:
    make(sqlite, "TEXT", values)

    report = sqlite.sweep(Table("event", [RULE]))

    assert words in report.failures[0].error
    assert len(sqlite.ids("event")) == len(values)


def test_odd_rows_between_the_samples_are_never_deleted_early(sqlite: Ground) -> None:
    """The samples are the ends of the column; what hides between them must not be misread."""
    early = [ago(days=900 + n).strftime(FORMS[0]) for n in range(30)]
    late = [(NOW + timedelta(days=n)).strftime(FORMS[0]) for n in range(1, 31)]
    odd: list[object] = [
        ago(minutes=30).strftime("%Y-%m-%d %H:%M:%S"),
        ago(hours=2).strftime("%Y-%m-%dT%H:%M:%S-05:00"),
        None,
    ]
    make(sqlite, "TEXT", [*early, *late, *odd])

    report = sqlite.sweep(Table("event", [RULE]))

    assert report.is_clean
    assert sqlite.ids("event") == list(range(30, 63))


@settings(max_examples=300)
@given(
    value=st.datetimes(min_value=ago(days=2).replace(tzinfo=None), max_value=NOW.replace(tzinfo=None)),
    form=st.sampled_from(FORMS),
)
def test_no_text_is_taken_early_and_none_more_than_a_second_late(value: datetime, form: str) -> None:
    text, cutoff = value.strftime(form), NOW - timedelta(days=1)
    statement = is_before(literal(text, String), form_of_texts([text], "at"), cutoff)
    compiled = statement.compile(dialect=sqlite_dialect.dialect(), compile_kwargs={"literal_binds": True})
    with closing(sqlite3.connect(":memory:")) as connection:
        [[is_taken]] = connection.execute(f"SELECT {compiled}").fetchall()  # an expression
    written = datetime.fromisoformat(text).replace(tzinfo=UTC)

    if is_taken:
        assert written <= cutoff
    else:
        assert written >= cutoff - timedelta(seconds=1)


def test_a_unit_is_doubted_only_by_values_that_speak_for_another() -> None:
    assert unit_problem([0, 5, 1_700_000_000], InstantKind.SECONDS) is None
    assert unit_problem([1_700_000_000_000], InstantKind.MILLISECONDS) is None
    assert "milliseconds" in (unit_problem([1_700_000_000_000], InstantKind.SECONDS) or "")
    assert "not a number" in (unit_problem(["2020-01-01"], InstantKind.SECONDS) or "")
    assert form_of_texts([], "at") == Form(InstantKind.TEXT, "T")
