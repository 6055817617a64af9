from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.errors import DependencyCycleError
from gandy.rules.schedules import find_cycle, refuse_cycle

names = st.sampled_from("abcdefgh")


def test_the_error_lists_the_cycle_itself_and_not_the_way_to_it() -> None:
    parents = {"report": ["load"], "load": ["files", "clean"], "clean": ["extract"], "extract": ["load"]}

    with pytest.raises(DependencyCycleError, match="load -> clean -> extract -> load") as caught:
        refuse_cycle(parents, ["report"])

    assert caught.value.cycle == ("load", "clean", "extract", "load")


def test_a_manifest_that_waits_for_itself_is_a_cycle() -> None:
    assert find_cycle({"a": ["a"]}) == ("a", "a")


def test_chains_and_trees_are_no_cycles_however_long() -> None:
    refuse_cycle({str(number): [str(number + 1)] for number in range(100_000)})
    refuse_cycle({str(number): ["root"] for number in range(1000)})
    refuse_cycle({"merge": ["left", "right"], "left": ["root"], "right": ["root"]})
    refuse_cycle({})


@settings(max_examples=300)
@given(st.dictionaries(names, st.lists(names, max_size=3)))
def test_a_cycle_is_found_exactly_when_following_parents_may_never_end(parents: dict[str, list[str]]) -> None:
    def never_ends(name: str) -> bool:
        reached = {name}
        for _ in range(len(parents) + 1):
            reached = {parent for each in reached for parent in parents.get(each, ())}
        return bool(reached)

    cycle = find_cycle(parents)

    assert (cycle is not None) == any(never_ends(name) for name in parents)
    if cycle is not None:
        assert cycle[0] == cycle[-1]
        assert all(parent in parents[child] for child, parent in itertools.pairwise(cycle))
