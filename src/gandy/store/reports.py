"""Reports of runs: log lines, progress and timings."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from gandy.store.runs import ProgressRow, report_progress
from gandy.store.statements import batch, statement, write_bisecting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from gandy.model.owners import Owners
    from gandy.store.drivers.database import Runner
    from gandy.store.statements import Operation, Rows


class LogRow(NamedTuple):
    """One log line, with the fence of the claim that may write it."""

    run_id: int
    fence: int
    created_at: datetime
    level: str
    logger: str
    message: str


def write_live_logs(lines: Sequence[LogRow]) -> Operation[None]:
    """Write log lines of live runs; lines of runs that the claim no longer owns are dropped."""
    yield batch("write_live_logs", [line._asdict() for line in lines])


def keep_logs(lines: Sequence[LogRow], buckets: Mapping[int, str | None]) -> Operation[None]:
    """Write the last lines of runs that ended in this transaction into the runs' buckets."""
    kept = [line for line in lines if line.run_id in buckets]
    yield batch(
        "keep_logs",
        [
            {
                "run_id": line.run_id,
                "bucket": buckets[line.run_id],
                "created_at": line.created_at,
                "level": line.level,
                "logger": line.logger,
                "message": line.message,
            }
            for line in kept
        ],
    )


def settle_logs(buckets: Mapping[int, str | None]) -> Operation[None]:
    """Move the lines that were written during the runs into the buckets of the ended runs."""
    yield batch("settle_logs", [{"run_id": run_id, "bucket": bucket} for run_id, bucket in buckets.items()])


def load_logs(run_id: int, owners: Owners, *, after: int = 0, limit: int = 1_000) -> Operation[Rows]:
    """Read one run's lines in their order."""
    return (yield statement("load_logs", run_id=run_id, owner=owners.bound, after=after, limit=limit))


_log = logging.getLogger("gandy.runs")

Report: TypeAlias = "LogRow | ProgressRow"
_NAMED: Final = 5


async def write_reports(runner: Runner, lines: Sequence[LogRow], progress: Sequence[ProgressRow] = ()) -> int:
    """Write reports of live runs and return the number dropped; each part is a transaction of its own.

    A database-wide fault is raised; the caller keeps the reports that are not written yet.
    """

    def write(reports: Sequence[Report]) -> Operation[None]:
        yield from report_progress([each for each in reports if isinstance(each, ProgressRow)])
        yield from write_live_logs([each for each in reports if isinstance(each, LogRow)])

    return await _write_by_run(runner, [*progress, *lines], write)


async def keep_last_lines(runner: Runner, lines: Sequence[LogRow], buckets: Mapping[int, str | None]) -> int:
    """Write the last lines of runs whose ends are recorded, and return the number dropped."""

    def write(reports: Sequence[Report]) -> Operation[None]:
        yield from keep_logs([each for each in reports if isinstance(each, LogRow)], buckets)

    return await _write_by_run(runner, lines, write)


async def _write_by_run(
    runner: Runner, reports: Sequence[Report], write: Callable[[Sequence[Report]], Operation[None]]
) -> int:
    """Halve by run, then by line, so that a run's lines stay together where possible."""
    runs: dict[int, list[Report]] = {}
    for report in reports:
        runs.setdefault(report.run_id, []).append(report)
    by_run = await write_bisecting(
        list(runs.values()),
        lambda part: runner.run(write([each for run in part for each in run])),
        charges_all=True,
    )
    dropped = 0
    for refused in by_run.refused:
        by_line = await write_bisecting(refused.item, lambda part: runner.run(write(part)), charges_all=True)
        dropped += len(by_line.refused)
        for line in by_line.refused[:_NAMED]:
            _log.warning("a report of run %s is dropped: %s", line.item.run_id, line.error)
    return dropped
