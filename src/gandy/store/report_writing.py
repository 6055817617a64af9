"""Writing what runs report: one line that the database refuses costs that line, and nothing beside it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.store.halving import write_halved
from gandy.store.logs import LogRow, keep_logs, write_live_logs
from gandy.store.runs import ProgressRow, report_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gandy.store.drivers.database import Runner
    from gandy.store.statements import Operation

_log = logging.getLogger("gandy.runs")

Report: TypeAlias = "LogRow | ProgressRow"
_NAMED: Final = 5


async def write_reports(runner: Runner, lines: Sequence[LogRow], progress: Sequence[ProgressRow] = ()) -> int:
    """Write reports of runs that go on, and give how many were dropped; each part is its own transaction.

    A fault of the database as a whole is raised, and what is not written by then is the caller's to keep.
    """

    def write(reports: Sequence[Report]) -> Operation[None]:
        yield from report_progress([each for each in reports if isinstance(each, ProgressRow)])
        yield from write_live_logs([each for each in reports if isinstance(each, LogRow)])

    return await _write_by_run(runner, [*progress, *lines], write)


async def keep_last_lines(runner: Runner, lines: Sequence[LogRow], buckets: Mapping[int, str | None]) -> int:
    """Write the last lines of runs whose ends are recorded, and give how many were dropped."""

    def write(reports: Sequence[Report]) -> Operation[None]:
        yield from keep_logs([each for each in reports if isinstance(each, LogRow)], buckets)

    return await _write_by_run(runner, lines, write)


async def _write_by_run(
    runner: Runner, reports: Sequence[Report], write: Callable[[Sequence[Report]], Operation[None]]
) -> int:
    """Halve by run, then by line, so that a run's lines stay together where they can."""
    runs: dict[int, list[Report]] = {}
    for report in reports:
        runs.setdefault(report.run_id, []).append(report)
    by_run = await write_halved(
        list(runs.values()),
        lambda part: runner.run(write([each for run in part for each in run])),
        charges_all=True,
    )
    dropped = 0
    for refused in by_run.refused:
        by_line = await write_halved(refused.item, lambda part: runner.run(write(part)), charges_all=True)
        dropped += len(by_line.refused)
        for line in by_line.refused[:_NAMED]:
            _log.warning("a report of run %s is dropped: %s", line.item.run_id, line.error)
    return dropped
