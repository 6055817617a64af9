"""Equal inputs share a digest whatever the order of their keys; inputs that differ never do."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.store.waiting import input_digest

if TYPE_CHECKING:
    from gandy.model.layout import Json

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, 1.5])
    | st.text("01ae\ud800", max_size=2)
)
values: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)
DEEP = "[" * 200_000 + "]" * 200_000
LONG = "1" * 5_000
DIFFERENT = ["null", "0", "false", '""', "[]", "{}", "1", "1.0", "true", '"1"', "[1]", '{"1": 1}', "[[]]"]
EXTREME = [LONG, LONG + "2", "1e400", "1e500", "-1e400", DEEP, f"[{DEEP}]", '"\\ud800"', '"\\u0000"']


def is_equal(one: Json, other: Json) -> bool:
    """Judge by value and by kind: true is not 1, and 1 is not 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return type(one) is type(other) and one == other


@given(values, values)
def test_two_inputs_share_a_digest_exactly_when_they_are_equal(one: Json, other: Json) -> None:
    digests = input_digest(json.dumps(one)), input_digest(json.dumps(other))

    assert (digests[0] == digests[1]) == is_equal(one, other)


@given(st.dictionaries(st.text("abc", min_size=1), values, min_size=2))
def test_the_order_of_keys_and_the_spaces_do_not_matter(value: dict[str, Json]) -> None:
    turned = dict(reversed(value.items()))

    assert input_digest(json.dumps(value)) == input_digest(json.dumps(turned, indent=2))


@pytest.mark.parametrize("texts", [DIFFERENT, EXTREME], ids=["ordinary", "extreme"])
def test_texts_that_a_careless_reader_would_take_for_equal_are_told_apart(texts: list[str]) -> None:
    assert [pair for pair in combinations(texts, 2) if input_digest(pair[0]) == input_digest(pair[1])] == []


def test_no_input_is_the_same_as_null() -> None:
    assert input_digest(None) == input_digest("null")
