"""The log lines that are kept with runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from gandy.model.owners import Owners
    from gandy.store.statements import Operation, Rows


class LogRow(NamedTuple):
    """One line, with the claim that may write it."""

    run_id: int
    fence: int
    created_at: datetime
    level: str
    logger: str
    message: str


def write_live_logs(lines: Sequence[LogRow]) -> Operation[None]:
    """Write lines of runs that go on; those of runs that the claim no longer owns are dropped."""
    yield batch("write_live_logs", [line._asdict() for line in lines])


def keep_logs(lines: Sequence[LogRow], buckets: Mapping[int, str | None]) -> Operation[None]:
    """Write the last lines of runs that ended in this transaction; `buckets` says where these went."""
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
    """Move the lines that were written while the runs went on to where the runs went."""
    yield batch("settle_logs", [{"run_id": run_id, "bucket": bucket} for run_id, bucket in buckets.items()])


def load_logs(run_id: int, owners: Owners, *, after: int = 0, limit: int = 1_000) -> Operation[Rows]:
    """Read one run's lines in their order."""
    return (yield statement("load_logs", run_id=run_id, owner=owners.bound, after=after, limit=limit))
