"""Rows are told apart by keys of any type; cursors and quarantine keep them."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, check, older_than, run_contracts, terminal
from gandy.lifecycle.database.numbers import decode_values, encode_values
from gandy.sweep import Budget
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground

_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.binary(),
    st.uuids(),
    st.dates(),
    st.datetimes(timezones=st.just(UTC)),
    st.decimals(allow_nan=False, allow_infinity=False),
)


@settings(max_examples=300)
@given(st.lists(_VALUES, max_size=4).map(tuple))
def test_a_key_is_read_back_as_it_was_written(values: tuple[object, ...]) -> None:
    assert decode_values(encode_values(values)) == values


KEYS = [
    ("uuid", "'00000000-0000-0000-0000-' || lpad(n::text, 12, '0')"),
    ("text", "'k ''\"' || n"),
    ("numeric(30, 9)", "n + 0.000000001"),
    ("bytea", "decode(lpad(to_hex(n), 8, '0'), 'hex')"),
    ("date", "date '2000-01-01' + n"),
    ("inet", "'10.0.0.0'::inet + n"),
    ("smallint", "n"),
    ('varchar(20) COLLATE "C"', "n"),
]


@pytest.mark.parametrize(("declared", "expression"), KEYS)
def test_a_sweep_resumes_by_keys_of_any_type(postgres: Ground, declared: str, expression: str) -> None:
    cast = declared.split(" COLLATE", maxsplit=1)[0]
    postgres.run(
        f"CREATE TABLE thing (key {declared} PRIMARY KEY, at timestamptz)",
        f"INSERT INTO thing SELECT ({expression})::{cast}, '{ago(days=2)}' FROM generate_series(1, 40) AS n",  # noqa: S608
    )
    contract = Contract("app", [Table("thing", [older_than("at", keep_for="1d")])], budget=Budget(rows=15))

    deleted = []
    for _ in range(4):
        [report] = run_contracts([contract], postgres.url, options=SweepOptions(clock=ManualClock(NOW)))
        assert report.is_clean, report.failures
        deleted.append(report.deleted)

    assert deleted == [15, 15, 10, 0]


def test_a_state_of_an_enumerated_type_is_compared(postgres: Ground) -> None:
    postgres.run(
        "CREATE TYPE state AS ENUM ('open', 'done')",
        "CREATE TABLE job (id bigint PRIMARY KEY, state state, at timestamptz)",
    )
    postgres.fill("job", [(1, "open", ago(days=9)), (2, "done", ago(days=9))])

    postgres.sweep(Table("job", [terminal("state", states=["done"], at="at", keep_for="1d")]))

    assert postgres.ids("job") == [1]


@pytest.mark.parametrize("column", ["text_state", "enumerated", "number", "place", "checked", "flag", "yes"])
@pytest.mark.parametrize("known_first", [True, False])
def test_a_state_that_its_column_cannot_have_is_refused_wherever_it_stands(
    postgres: Ground, column: str, *, known_first: bool
) -> None:
    """A text column can have any; the others are refused by check, and by a sweep before it deletes."""
    postgres.run(
        "CREATE TYPE state AS ENUM ('open', 'done')",
        "CREATE DOMAIN checked AS int",
        "CREATE DOMAIN yes AS boolean",
        "CREATE TABLE job (id bigint PRIMARY KEY, text_state text, enumerated state, number int, place uuid,"
        " checked checked, flag boolean, yes yes, at timestamptz)",
        f"CREATE INDEX ON job ({column}, at)",
    )
    uuid = "00000000-0000-0000-0000-000000000001"
    known: dict[str, str | int] = {"text_state": "done", "enumerated": "done", "place": uuid} | dict.fromkeys(
        ["flag", "yes"], True
    )
    postgres.fill("job", [(1, "done", "done", 1, uuid, 1, True, True, ago(days=9))])
    states = [known.get(column, 1), "nope"]
    rule = terminal(column, states=states if known_first else states[::-1], at="at", keep_for="1d")
    is_possible = column == "text_state"

    found = check([Contract("app", [Table("job", [rule])])], postgres.url)
    report = postgres.sweep(Table("job", [rule]))

    assert any(finding.severity.stops for finding in found) is not is_possible
    assert report.is_clean is is_possible
    assert postgres.ids("job") == ([] if is_possible else [1])
