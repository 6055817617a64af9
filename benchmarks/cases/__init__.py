"""The cases, by name."""

from __future__ import annotations

from benchmarks.cases import cleanup, lifecycle, pages, pruning, queue, schedules, schedules_scale

CASES = {
    case.name: case
    for case in (
        *queue.CASES,
        *schedules.CASES,
        *schedules_scale.CASES,
        *pruning.CASES,
        *lifecycle.CASES,
        *cleanup.CASES,
        *pages.CASES,
    )
}
