from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.rules.dispatching import MOST_LOOKS, Demand, WantedEntry, entitled, looks, pick, share
from tests.unit.rules.views import NOON


def demand(group_id: int, due: int, priority: int = 0, waiting: int = 0) -> Demand:
    return Demand(group_id, priority, due, NOON - timedelta(seconds=waiting))


def test_fifteen_beside_five_thousand_all_get_their_place_in_the_first_cycle() -> None:
    assert share(200, [demand(1, 5000), demand(2, 15)]) == {1: 185, 2: 15}


def test_without_a_limit_everybody_gets_everything() -> None:
    assert share(None, [demand(1, 5000), demand(2, 15)]) == {1: 5000, 2: 15}


def test_what_is_left_over_goes_to_the_higher_priority_first() -> None:
    assert share(10, [demand(1, 50), demand(2, 50, priority=5), demand(3, 2)]) == {1: 3, 2: 5, 3: 2}


def test_more_groups_than_places_are_served_by_priority_and_then_by_waiting() -> None:
    demands = [demand(1, 9), demand(2, 9, waiting=60), demand(3, 9, priority=31)]

    assert share(2, demands) == {1: 0, 2: 1, 3: 1}


@pytest.mark.parametrize("limit", [None, 0, 5])
def test_nobody_due_is_nobody_served(limit: int | None) -> None:
    assert share(limit, []) == {}
    assert share(limit, [demand(1, 0)]) == {1: 0}


demands = st.lists(
    st.builds(demand, st.integers(1, 10**6), st.integers(0, 300), st.integers(0, 31), st.integers(0, 99)),
    unique_by=lambda each: each.group_id,
    max_size=40,
)


@settings(max_examples=300)
@given(st.integers(0, 400), demands)
def test_a_share_is_never_too_much_and_never_leaves_a_place_unused(limit: int, groups: list[Demand]) -> None:
    shares = share(limit, groups)

    assert sum(shares.values()) == min(limit, sum(group.due for group in groups))
    assert all(0 <= shares[group.group_id] <= group.due for group in groups)


@settings(max_examples=300)
@given(st.integers(1, 400), demands)
def test_every_group_gets_at_least_its_even_share(limit: int, groups: list[Demand]) -> None:
    wanting = [group for group in groups if group.due]
    even = limit // max(len(wanting), 1)

    assert all(share(limit, groups)[group.group_id] >= min(even, group.due) for group in wanting)


@settings(max_examples=300)
@given(st.integers(1, 400), demands)
def test_a_group_gets_more_than_its_share_only_when_all_above_it_have_all_they_want(
    limit: int, groups: list[Demand]
) -> None:
    shares = share(limit, groups)
    wanting = [group for group in groups if group.due]
    even = max(limit // max(len(wanting), 1), 1)

    for group in wanting:
        if shares[group.group_id] > even:
            above = [other for other in wanting if other.priority > group.priority]
            assert all(shares[other.group_id] == other.due for other in above)


def test_within_a_group_priority_and_age_decide_who_is_picked() -> None:
    def wanted(manifest_id: int, priority: int, waiting: int) -> WantedEntry:
        return WantedEntry(manifest_id, 1, 0, priority, NOON - timedelta(seconds=waiting))

    entries = [wanted(1, 0, 5), wanted(2, 0, 90), wanted(3, 8, 0), wanted(4, 0, 90)]

    assert [entry.manifest_id for entry in pick(3, entries)] == [3, 2, 4]
    assert len(pick(None, entries)) == 4


@settings(max_examples=300)
@given(st.integers(1, 400), demands, st.dictionaries(st.integers(1, 10**6), st.integers(0, 9), max_size=9))
def test_what_was_queued_of_a_group_counts_against_its_share(
    limit: int, groups: list[Demand], queued: dict[int, int]
) -> None:
    left = max(limit - sum(queued.values()), 0)

    entries = entitled(limit, groups, queued)

    assert sum(entries.values()) <= left
    assert all(0 <= entries[group.group_id] <= group.due for group in groups)


def test_a_group_that_had_its_share_leaves_the_next_looks_to_the_others() -> None:
    groups = [demand(1, 5_000), demand(2, 9_000)]

    assert entitled(200, groups, {1: 100}) == {1: 0, 2: 100}
    assert entitled(200, groups, {1: 100, 2: 100}) == {1: 0, 2: 0}
    assert entitled(200, groups[:1], {1: 100, 2: 20}) == {1: 80}


@settings(max_examples=300)
@given(st.integers(1, 400), demands, st.sampled_from([1, 2, 64]))
def test_looks_are_as_many_as_may_be_queued_and_more_where_most_want_nothing(
    limit: int, groups: list[Demand], times: int
) -> None:
    entries = entitled(limit, groups, {})

    seen = looks(limit, groups, entries, times=times)

    due = {group.group_id: group.due for group in groups}
    wanted = {group_id: min(due[group_id], count * times) for group_id, count in entries.items() if count}
    assert sum(seen.values()) == min(sum(wanted.values()), MOST_LOOKS)
    assert all(count <= wanted[group_id] for group_id, count in seen.items())


def test_a_cycle_without_a_limit_looks_at_all_that_is_due_in_large_sets() -> None:
    groups = [demand(1, 9_000), demand(2, 500)]

    assert looks(None, groups, entitled(None, groups, {})) == {1: 9_000, 2: 500}
