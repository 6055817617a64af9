"""What becomes of occurrences that were not decided in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from gandy.model.schedule import MisfirePolicy, SkipReason
from gandy.rules.calendar.series import Plan, Series, split_before_last

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

#: So many missed occurrences are made up for under catch_up; older ones are misfired.
MOST_CAUGHT_UP: Final = 100


@dataclass(frozen=True, slots=True)
class Judged:
    """Instants and the reason to skip them; without one they may run if no guard holds."""

    series: Series
    reason: SkipReason | None


def judge_in_time(series: Iterable[Series]) -> list[Judged]:
    """Judge instants that are not late: only an exclusion keeps them from running."""
    return [_judged(each, None) for each in series]


def judge_late(plan: Plan, series: list[Series], policy: MisfirePolicy) -> list[Judged]:
    """Judge instants that are later than the threshold, by the manifest's policy."""
    match policy:
        case MisfirePolicy.DO_NOTHING:
            return [_judged(each, SkipReason.MISFIRED) for each in series]
        case MisfirePolicy.FIRE_ONCE_NOW:
            return _keep_last(plan, series, 1)
        case MisfirePolicy.CATCH_UP:
            return _keep_last(plan, series, MOST_CAUGHT_UP)
        case _:
            assert_never(policy)


def _keep_last(plan: Plan, series: list[Series], keep: int) -> list[Judged]:
    judged: list[Judged] = []
    for each in reversed(series):
        if keep == 0 or each.is_excluded or each.is_too_old:
            judged.append(_judged(each, SkipReason.MISFIRED))
            continue
        missed, kept = split_before_last(plan, each, keep)
        keep -= min(keep, each.count)
        judged.extend(
            Judged(part, reason)
            for part, reason in ((kept, None), (missed, SkipReason.MISFIRED))
            if part is not None
        )
    judged.reverse()
    return judged


def _judged(series: Series, reason: SkipReason | None) -> Judged:
    if series.is_excluded:
        return Judged(series, SkipReason.EXCLUDED)
    return Judged(series, SkipReason.MISFIRED if series.is_too_old else reason)
