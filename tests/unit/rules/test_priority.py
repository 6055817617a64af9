from __future__ import annotations

import pytest

from gandy.model.schedule import Origin
from gandy.rules.dispatching import entry_priority, ordering_priority


def test_an_entry_takes_the_manifests_priority_else_the_groups() -> None:
    assert entry_priority(None, 7) == 7
    assert entry_priority(0, 7) == 0


@pytest.mark.parametrize(("priority", "ordered"), [(0, 16), (10, 26), (15, 31), (16, 31), (31, 31)])
def test_a_dependent_is_ordered_sixteen_higher_and_at_most_at_the_top(priority: int, ordered: int) -> None:
    assert ordering_priority(priority, Origin.DEPENDENT) == ordered
    assert all(
        ordering_priority(priority, origin) == priority for origin in Origin if origin != Origin.DEPENDENT
    )
