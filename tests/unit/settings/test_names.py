"""What the system calls a host or a user becomes a name that every door takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gandy.settings.bounds import BOUNDS
from gandy.settings.values import presentable


@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_whatever_the_system_says_becomes_a_name(text: str) -> None:
    assert BOUNDS["name"].holds(presentable(text)), presentable(text)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=100))
def test_what_is_a_name_already_stays_as_it_is(text: str) -> None:
    assert presentable(text) == text
