from __future__ import annotations

from datetime import timedelta

from gandy.rules.ending import (
    is_finished_once_removable,
    is_orphan_removable,
)
from tests.unit.rules.views import NOON

MOMENT = timedelta(microseconds=1)


def test_a_finished_once_goes_after_thirty_days_unless_still_declared() -> None:
    later = NOON + timedelta(days=30) + MOMENT

    assert is_finished_once_removable(NOON, later, is_declared=False)
    assert not is_finished_once_removable(NOON, later, is_declared=True)
    assert not is_finished_once_removable(NOON, NOON + timedelta(days=30), is_declared=False)
    assert not is_finished_once_removable(None, later, is_declared=False)


def test_an_orphan_goes_after_a_day_but_never_under_an_unfinished_run() -> None:
    later = NOON + timedelta(days=1) + MOMENT

    assert is_orphan_removable(NOON, later, has_unfinished_run=False)
    assert not is_orphan_removable(NOON, later, has_unfinished_run=True)
    assert not is_orphan_removable(NOON, NOON + timedelta(days=1), has_unfinished_run=False)
    assert not is_orphan_removable(None, later, has_unfinished_run=False)
