from __future__ import annotations

from gandy.rules.dispatching import entry_priority


def test_an_entry_takes_the_manifests_priority_else_the_groups() -> None:
    assert entry_priority(None, 7) == 7
    assert entry_priority(0, 7) == 0
