"""Reaping in one operation, for tests that are about something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.store.reaping import end_abandoned, find_abandoned, mark_lost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.store.reaping import Reaped, ReapRules
    from gandy.store.statements import Operation


def reap_lost(worker_ids: Sequence[str], rules: ReapRules) -> Operation[Reaped]:
    """Mark the silent ones of these workers as lost, and end every run that no worker holds."""
    yield from mark_lost(worker_ids)
    found = yield from find_abandoned()
    return (yield from end_abandoned(found, rules))
