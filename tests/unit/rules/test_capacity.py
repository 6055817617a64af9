from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.rules.dispatching import Capacity, Ready, choose

UNLIMITED = Capacity(max_active_jobs=None, active=0, group_caps={}, group_active={})


def ready(entry_id: int, group_id: int = 1, *, group_priority: int = 0, rank: int = 0) -> Ready:
    return Ready(entry_id, group_id, group_priority, rank)


def ids(chosen: list[Ready]) -> list[int]:
    return [entry.entry_id for entry in chosen]


def test_group_priority_comes_before_entry_priority_before_age() -> None:
    entries = [ready(2), ready(1), ready(3, rank=4), ready(4, group_id=2, group_priority=1)]

    assert ids(choose(entries, UNLIMITED)) == [4, 3, 1, 2]


def test_the_global_cap_stops_the_cycle() -> None:
    capacity = Capacity(max_active_jobs=5, active=3, group_caps={}, group_active={})

    assert ids(choose([ready(number) for number in range(9)], capacity)) == [0, 1]


def test_group_at_its_limit_does_not_block_other_groups() -> None:
    capacity = Capacity(max_active_jobs=None, active=2, group_caps={1: 2}, group_active={1: 1})
    entries = [ready(1, 1, group_priority=9), ready(2, 1, group_priority=9), ready(3, 2)]

    assert ids(choose(entries, capacity)) == [1, 3]


def test_a_cap_that_is_already_exceeded_starts_nothing() -> None:
    assert choose([ready(1)], Capacity(max_active_jobs=2, active=7, group_caps={}, group_active={})) == []
    assert choose([ready(1)], Capacity(None, 7, group_caps={1: 2}, group_active={1: 7})) == []


entries = st.lists(
    st.builds(
        ready,
        st.integers(),
        st.integers(1, 4),
        group_priority=st.integers(0, 3),
        rank=st.integers(0, 31),
    ),
    unique_by=lambda entry: entry.entry_id,
    max_size=60,
)
counts = st.dictionaries(st.integers(1, 4), st.integers(0, 20))


@settings(max_examples=400)
@given(entries, st.none() | st.integers(0, 50), st.integers(0, 50), counts, counts)
def test_no_cap_is_exceeded_and_nobody_is_left_out_without_one(
    candidates: list[Ready],
    cap: int | None,
    active: int,
    group_caps: dict[int, int],
    group_active: dict[int, int],
) -> None:
    chosen = choose(candidates, Capacity(cap, active, group_caps, group_active))
    running = {group: group_active.get(group, 0) for group in range(1, 5)}
    before = dict(running)
    for entry in chosen:
        running[entry.group_id] += 1

    assert cap is None or len(chosen) <= max(cap - active, 0)
    assert all(running[group] <= max(most, before[group]) for group, most in group_caps.items())
    if cap is None or len(chosen) < cap - active:
        started = set(ids(chosen))
        left_out = {entry.group_id for entry in candidates if entry.entry_id not in started}
        assert all(running[group] >= group_caps[group] for group in left_out)


@settings(max_examples=200)
@given(st.integers(2, 9), st.integers(1, 30), st.booleans())
def test_no_group_waits_behind_anothers_backlog(groups: int, limit: int, has_priorities: bool) -> None:
    """Each group has its turn within twice as many claims as there are groups."""
    backlog = [
        ready(number, number % groups, group_priority=number % groups if has_priorities else 0)
        for number in range(60 * groups)
        if number % groups or number < groups  # the first group has a single entry
    ]

    started: set[int] = set()
    for turn in range(1, 2 * groups + 1):
        started |= {entry.group_id for entry in choose(backlog, UNLIMITED, limit=limit, turn=turn)}

    assert started == set(range(groups))


def test_a_higher_priority_has_most_of_a_small_limit() -> None:
    backlog = [ready(number, number % 2, group_priority=number % 2) for number in range(100)]

    taken = [choose(backlog, UNLIMITED, limit=1, turn=turn)[0].group_id for turn in range(1, 101)]

    assert 0 < taken.count(0) <= 50 <= taken.count(1)


def test_a_limit_that_can_be_shared_gives_each_group_a_part_and_the_rest_in_order() -> None:
    entries = [*(ready(number) for number in range(100)), *(ready(number, 2) for number in range(100, 105))]

    assert ids(choose(entries, UNLIMITED, limit=20)) == [*range(15), *range(100, 105)]
    assert ids(choose(entries, UNLIMITED, limit=3)) == [0, 1, 100]
