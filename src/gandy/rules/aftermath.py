"""What follows the end of a run: the next attempt, a parked job, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.model.run import EndedBy, TrainState
from gandy.rules.retry import USUAL, backoff, is_exhausted, with_jitter
from gandy.rules.rhythm import is_denser

if TYPE_CHECKING:
    from gandy.model.run import RunEnd
    from gandy.rules.rhythm import Rhythm
    from gandy.settings import RetrySettings

SUSPECT_AFTER_LOSSES: Final = 2
PARK_AFTER_LONE_LOSSES: Final = 3
LARGEST_SET: Final = 128


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """What a job allows, and how often it has failed before this end."""

    failures: int
    max_retries: int
    is_retried: bool
    retry_delay: timedelta | None
    rhythm: Rhythm | None = None  #: of a manifest; ad-hoc work has none


@dataclass(frozen=True, slots=True)
class Retry:
    """Another attempt, after a delay, with what the attempts so far left behind."""

    delay: timedelta
    failures: int
    losses: int
    lone_losses: int


@dataclass(frozen=True, slots=True)
class Park:
    """A person has to look at it."""

    reason: str
    is_at_once: bool = False  #: whatever is left of its attempts


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing follows."""


Aftermath: TypeAlias = Retry | Park | Settled


def is_suspect(losses: int) -> bool:
    """Tell whether a job may be what kills its workers: it then runs isolated, in a set of such jobs."""
    return losses >= SUSPECT_AFTER_LOSSES


def most_in_set(losses: int) -> int:
    """Return how many suspects may share a process: each loss halves it, down to a process of their own."""
    return max(1, LARGEST_SET >> max(0, losses - SUSPECT_AFTER_LOSSES))


def aftermath(end: RunEnd, policy: JobPolicy, settings: RetrySettings = USUAL) -> Aftermath:
    """Decide what follows; a success and an operator's cancellation use the occurrence up."""
    if end.state is not TrainState.FAILED or not policy.is_retried:
        return Settled()
    if not end.is_counted:
        return _after_interruption(end, policy)
    failures = policy.failures + 1
    if end.gives_up:
        return Park("not tried again, as its train says", is_at_once=True)
    if is_spent(failures, policy, settings):
        attempts = "attempt" if failures == 1 else "attempts"
        return Park(f"failed {failures} {attempts} of {max(1, policy.max_retries)}")
    if end.retry_after is None and _is_retried_by_schedule(failures, policy, settings):
        return Settled()
    usual = backoff(failures, policy.retry_delay, settings)
    delay = with_jitter(usual if end.retry_after is None else end.retry_after, end.id, settings.jitter)
    return Retry(delay, failures, end.losses, end.lone_losses)


def is_spent(failures: int, policy: JobPolicy, settings: RetrySettings) -> bool:
    """Tell whether a job is parked: a schedule denser than its retries must have failed for a while, too."""
    if not is_exhausted(failures, policy.max_retries):
        return False
    rhythm = policy.rhythm
    if rhythm is None or rhythm.failing_for >= settings.park_window:
        return True
    return not is_denser(rhythm, backoff(failures, policy.retry_delay, settings))


def _is_retried_by_schedule(failures: int, policy: JobPolicy, settings: RetrySettings) -> bool:
    """Tell whether the coming instants are the retries: a pause would only silence the job."""
    rhythm = policy.rhythm
    if rhythm is None or not rhythm.is_own_input:
        return False
    return is_denser(rhythm, backoff(failures, policy.retry_delay, settings))


def _after_interruption(end: RunEnd, policy: JobPolicy) -> Aftermath:
    """Retried at once and not counted, unless it has died alone too often."""
    if end.ended_by is not EndedBy.LOST_WORKER:
        return Retry(timedelta(0), policy.failures, end.losses, end.lone_losses)
    lone_losses = end.lone_losses + (1 if end.was_alone else 0)
    if lone_losses >= PARK_AFTER_LONE_LOSSES:
        return Park(f"its process died {lone_losses} times while it ran alone")
    return Retry(timedelta(0), policy.failures, end.losses + 1, lone_losses)
