"""An outage as the rules decide it, and as the rule is written down: a job that fails until it is parked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.model.run import RunEnd, TrainState
from gandy.model.schedule import Interval, MisfirePolicy
from gandy.rules.deciding import determine
from gandy.rules.ending import JobPolicy, Park, RetryPlan, aftermath, is_spent
from gandy.rules.recurring import Rhythm
from gandy.settings import RetrySettings
from tests.unit.rules.views import NOON, view_of

if TYPE_CHECKING:
    from datetime import datetime

LONGEST = 3_600
WINDOW = 900


@dataclass(frozen=True)
class Job:
    """A schedule and its retries, in seconds."""

    period: int
    delay: int
    limit: int
    misfire: MisfirePolicy = MisfirePolicy.FIRE_ONCE_NOW


@dataclass
class Story:
    """When it ran, which instants it did not run at, and when it was parked."""

    runs: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    parked: int | None = None


def as_written(job: Job, *, until: int) -> Story:
    """Tell the story by the words of the rule, second numbers and nothing else."""
    story, failures, first = Story(), 0, 0
    waiting: int | None = None
    ahead, now = 0, 0

    def pause() -> int:
        return job.delay if job.delay >= LONGEST else min(job.delay * 2 ** (failures - 1), LONGEST)

    def is_parked() -> bool:
        is_short = failures > 0 and job.period < pause()
        return failures >= job.limit and (not is_short or now - first >= WINDOW)

    while now <= until:
        if failures and is_parked():
            story.parked = now
            return story
        runs_now = False
        while ahead <= now:
            is_held = waiting is not None or runs_now
            if is_held and job.misfire is MisfirePolicy.CATCH_UP:
                break
            (story.skipped if is_held else story.runs).append(ahead if is_held else now)
            runs_now = True if not is_held else runs_now
            ahead += job.period
        if waiting is not None and waiting <= now:
            story.runs.append(now)
            waiting, runs_now = None, True
        if runs_now:
            failures += 1
            first = now if failures == 1 else first
            if not is_parked() and job.period >= pause():
                waiting = now + pause()
            continue
        now = min(at for at in (waiting, ahead) if at is not None and at > now)
    return story


@dataclass
class _Manifest:
    cursor: datetime | None = NOON
    failures: int = 0
    first: datetime = NOON
    retry_at: datetime | None = None


def as_decided(job: Job, *, until: int) -> Story:
    """Tell the story by what the rules of the scheduler decide."""
    story, manifest, now = Story(), _Manifest(), NOON
    settings = RetrySettings(jitter=0)
    while now <= NOON + timedelta(seconds=until):
        policy = _policy(job, manifest, now)
        if manifest.failures and is_spent(manifest.failures, policy, settings):
            story.parked = _seconds(now)
            return story
        is_run = _decide(job, manifest, story, now=now)
        if not is_run:
            coming = [at for at in (manifest.retry_at, manifest.cursor) if at is not None and at > now]
            now = min(coming)
            continue
        story.runs.append(_seconds(now))
        _fail(job, manifest, now=now, settings=settings)
    return story


def _decide(job: Job, manifest: _Manifest, story: Story, *, now: datetime) -> bool:
    view = view_of(
        Interval(timedelta(seconds=job.period)),
        next_scheduled_run=manifest.cursor,
        has_queued_work=manifest.retry_at is not None,
        misfire_policy=job.misfire,
        misfire_threshold=timedelta(days=1),
    )
    decision = determine(view, now)
    manifest.cursor = decision.next_scheduled_run
    for row in decision.skipped:
        first, last = _seconds(row.due_at), _seconds(row.due_until)
        story.skipped.extend(range(first, last + 1, job.period))
    is_retry = manifest.retry_at is not None and manifest.retry_at <= now
    return is_retry or decision.occurrence is not None


def _fail(job: Job, manifest: _Manifest, *, now: datetime, settings: RetrySettings) -> None:
    end = RunEnd(
        id=1, train="SendInvoice", worker_id=None, fence=None, state=TrainState.FAILED, manifest_id=7
    )
    sequel = aftermath(end, _policy(job, manifest, now), settings)
    manifest.first = now if manifest.failures == 0 else manifest.first
    manifest.failures += 1
    manifest.retry_at = now + sequel.delay if isinstance(sequel, RetryPlan) else None
    if isinstance(sequel, Park):
        assert manifest.failures >= job.limit


def _policy(job: Job, manifest: _Manifest, now: datetime) -> JobPolicy:
    rhythm = Rhythm(
        schedule=Interval(timedelta(seconds=job.period)),
        exclusions=(),
        cursor=manifest.cursor,
        now=now,
        failing_since=manifest.first if manifest.failures else now,
    )
    return JobPolicy(
        failures=manifest.failures,
        max_retries=job.limit,
        is_retried=True,
        retry_delay=timedelta(seconds=job.delay),
        rhythm=rhythm,
    )


def _seconds(at: datetime) -> int:
    return (at - NOON) // timedelta(seconds=1)
