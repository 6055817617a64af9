"""What the schedule of a failing manifest says about its next attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.model.schedule import Manual
from gandy.rules.ending import JobPolicy
from gandy.rules.recurring import Rhythm
from gandy.settings.bounds import as_span
from gandy.store.manifests import exclusions_of, schedule_of
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gandy.store.statements import Operation, Row


def read_policies(manifest_ids: Iterable[int]) -> Operation[Mapping[int, JobPolicy]]:
    """Read what the manifests of failed runs allow next; none at all costs nothing."""
    ids = sorted(set(manifest_ids))
    rows = (yield statement("read_failing", ids=ids)) if ids else []
    return {row.id: _policy(row) for row in rows}


def _policy(row: Row) -> JobPolicy:
    delay = row.retry_delay_seconds
    return JobPolicy(
        failures=row.failure_count,
        max_retries=row.max_retries,
        is_retried=row.is_retried,
        retry_delay=None if delay is None else as_span(delay),
        rhythm=_rhythm(row),
    )


def _rhythm(row: Row) -> Rhythm:
    is_first = row.failure_count == 0 or row.first_failed_at is None
    try:
        schedule = schedule_of(
            row.schedule_type, row.cron_expression, row.interval_seconds, row.timezone, None, ""
        )
        exclusions = exclusions_of(row.exclusions)
    except Exception:  # noqa: BLE001 whatever the row holds: a retry is certain where the schedule is not
        schedule, exclusions = Manual(), ()
    return Rhythm(
        schedule=schedule,
        exclusions=exclusions,
        cursor=row.next_scheduled_run,
        now=row.now,
        failing_since=row.now if is_first else row.first_failed_at,
        is_own_input=bool(row.is_own_input),
    )
