"""Finishing runs, with all that follows (retries, dead letters, promotions) in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, assert_never

from gandy.model.run import EndedBy, RunMeasure, TrainState
from gandy.model.schedule import EdgeKind
from gandy.rules.ending import USUAL, JobPolicy, Park, RetryPlan, Settled, aftermath
from gandy.settings.bounds import LONGEST_RETENTION, as_span
from gandy.store.letters import park_jobs
from gandy.store.manifests import announce_work
from gandy.store.runs import EndedRun, read_policies
from gandy.store.statements import batch, batch_of, statement
from gandy.store.waiting import (
    announce_promoted,
    find_children,
    judge,
    keep_activations,
    make_way_for_retries,
    promote,
    refused_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gandy.errors import ActivationError
    from gandy.model.run import RetentionSpans, RunEnd
    from gandy.settings import RetrySettings
    from gandy.store.statements import Batch, Operation, Row, Rows
    from gandy.store.waiting import Activations, InputProblem


@dataclass(frozen=True, slots=True)
class FinishRules:
    """Settings for finishing runs."""

    owner: str
    retention: RetentionSpans
    max_awaiting_letters_per_train: int
    is_capped: bool = False  #: there is a cap over all groups: each end frees a place under it
    tells_room: bool = True  #: notify all servers when a place under a cap becomes free
    retry: RetrySettings = USUAL
    #: validates an input by its train's type; None: inputs of activations are not checked here
    problem_of_input: InputProblem | None = None


@dataclass(frozen=True, slots=True)
class FinishResult:
    """The recorded ends and what followed; the claims of `refused` runs no longer owned them."""

    finished: Mapping[int, str | None]  #: the run's bucket, by its id
    refused: tuple[int, ...]
    retried: int
    letters: Mapping[int, int]  #: the dead letters written, by run
    overruled: frozenset[int] = frozenset()  #: failed runs that an operator had cancelled: they are cancelled
    makes_room: bool = False  #: a place under a cap is free and is to be filled at once
    #: runs that failed because their activations were refused
    refused_activations: Mapping[int, ActivationError] = field(default_factory=dict)
    measures: Sequence[RunMeasure] = ()  #: of the recorded ends, for statistics; the caller keeps them

    @property
    def parked(self) -> tuple[int, ...]:
        """The runs whose job now has a dead letter."""
        return tuple(self.letters)


def finish_runs(ends: Sequence[RunEnd], rules: FinishRules) -> Operation[FinishResult]:
    """Record the ends of runs that their claims still own, by fence; a recorded end is final."""
    children = yield from find_children(ends)
    manifests = yield from _lock_manifests(ends, children)
    activations = yield from judge(ends, children, problem_of=rules.problem_of_input)
    if activations.refused:
        ends = [_judged(end, activations) for end in ends]
    rows = yield _write_ends(ends, manifests, rules.retention)
    finished = {row.id: row.bucket for row in rows}
    settled, measures = _settled(ends, rows)
    decided = yield from _decide(settled, finished, rules.retry)
    retries = decided.retries
    parked = yield from park_jobs(
        decided.parks, finished, owner=rules.owner, limit=rules.max_awaiting_letters_per_train
    )
    decided.over -= parked.behind
    waiting = yield from _record_on_manifests(settled, decided)
    retried = yield from _queue_retries(retries, manifests, finished)
    yield from _settle_keys(settled, retried)
    waiting |= yield from keep_activations(activations, finished)
    promoted = yield from promote(waiting)
    makes_room = bool(rows) and (rules.is_capped or any(row.is_freed for row in rows))
    yield from _wake(rules, retries, promoted, tells_room=makes_room and rules.tells_room)
    return FinishResult(
        finished=finished,
        refused=tuple(end.id for end in ends if end.id not in finished),
        retried=len(retried),
        letters=parked.letters,
        overruled=frozenset(row.id for row in rows if row.is_overruled),
        makes_room=makes_room,
        refused_activations={
            run_id: error for run_id, error in activations.refused.items() if run_id in finished
        },
        measures=measures,
    )


def _settled(ends: Sequence[RunEnd], rows: Rows) -> tuple[list[RunEnd], list[RunMeasure]]:
    """Return the recorded ends, as they were recorded, and their measures."""
    settled: list[RunEnd] = []
    measures: list[RunMeasure] = []
    row_of = {row.id: row for row in rows}
    for end in ends:
        row = row_of.get(end.id)
        if row is not None:
            recorded = overruled_end(end) if row.is_overruled else end
            settled.append(recorded)
            measures.append(
                RunMeasure(end.train, end.manifest_id, recorded.state, row.minute, row.waited, row.took)
            )
    return settled, measures


def _judged(end: RunEnd, activations: Activations) -> RunEnd:
    error = activations.refused.get(end.id)
    return end if error is None else refused_end(end, error)


def overruled_end(end: RunEnd) -> RunEnd:
    """Turn a failure into a cancellation: an operator's cancellation takes precedence."""
    return end._replace(state=TrainState.CANCELLED, ended_by=EndedBy.OPERATOR)


def _lock_manifests(ends: Sequence[RunEnd], children: Sequence[int]) -> Operation[dict[int, Row]]:
    """Lock the manifests of the runs and of their activations together, so that the lock order is fixed."""
    ids = {end.manifest_id for end in ends if end.manifest_id is not None}.union(children)
    rows = (yield statement("lock_manifests", ids=sorted(ids))) if ids else []
    return {row.id: row for row in rows}


def _write_ends(ends: Sequence[RunEnd], manifests: Mapping[int, Row], retention: RetentionSpans) -> Batch:
    """Name the usual retention once: the database finds its day once, and few ends have another."""
    by_id = sorted(ends, key=attrgetter("id"))  # a fixed lock order, against deadlocks
    spans = [_keep_for(end, manifests, retention) for end in by_id]
    usual = spans[0] if spans else timedelta(0)
    rows = [
        _ended(end, None if span == usual else span.total_seconds())
        for end, span in zip(by_id, spans, strict=True)
    ]
    return batch_of("end_runs", _ENDED_FIELDS, rows, usual_seconds=usual.total_seconds())


_ENDED_FIELDS = (
    "id",
    "worker_id",
    "fence",
    "train_state",
    "output",
    "junctions",
    "failure_junction",
    "failure_exception",
    "failure_reason",
    "stack_trace",
    "cancellation_reason",
    "keep_for_seconds",
    "progress_done",
    "progress_total",
)


def _ended(end: RunEnd, keep_for_seconds: float | None) -> tuple[object, ...]:
    """Return the values of an end in the order of the fields above."""
    failure = end.failure or _NO_FAILURE
    return (
        end.id,
        end.worker_id,
        end.fence,
        end.state.value,
        end.output_json,
        end.junctions_json,
        failure.junction,
        failure.exception,
        failure.reason,
        failure.stack_trace,
        _CANCELLATION.get(end.ended_by),
        keep_for_seconds,
        end.progress_done,
        end.progress_total,
    )


class _NoFailure(NamedTuple):
    """The failure of a run that has not failed."""

    junction: None = None
    exception: None = None
    reason: None = None
    stack_trace: None = None


_NO_FAILURE = _NoFailure()


_CANCELLATION = {
    EndedBy.OPERATOR: "operator",
    EndedBy.TIMEOUT: "timeout",
    EndedBy.SHUTDOWN: "shutdown",
}


def _keep_for(end: RunEnd, manifests: Mapping[int, Row], retention: RetentionSpans) -> timedelta:
    manifest = manifests.get(end.manifest_id) if end.manifest_id is not None else None
    if manifest is not None and manifest.keep_for_seconds is not None:
        return min(as_span(manifest.keep_for_seconds), LONGEST_RETENTION)
    if end.keep_for is not None:
        return end.keep_for
    found = retention.by_train.get(end.train)
    return retention.of(end.state) if found is None else found


def _ad_hoc_policy(end: RunEnd, settings: RetrySettings) -> JobPolicy:
    return JobPolicy(
        failures=end.failures,
        max_retries=settings.max_retries if end.max_retries is None else end.max_retries,
        is_retried=end.is_retried is not False,
        retry_delay=end.retry_delay,
    )


@dataclass(slots=True)
class _Decided:
    """What follows failures."""

    retries: list[tuple[RunEnd, RetryPlan]] = field(default_factory=list)
    parks: list[tuple[RunEnd, Park]] = field(default_factory=list)
    over: set[int] = field(default_factory=set)  #: runs that were the last attempt of their occurrence

    def end_of(self, end: RunEnd) -> str | None:
        """Name the end of the occurrence, in the words of the edges; None: another attempt follows."""
        if end.state is TrainState.FAILED:
            return EdgeKind.FAILURE.value if end.id in self.over else None
        return (EdgeKind.SUCCESS if end.state is TrainState.COMPLETED else EdgeKind.END).value


def _decide(
    settled: Iterable[RunEnd], buckets: Mapping[int, str | None], settings: RetrySettings
) -> Operation[_Decided]:
    """Decide what follows each failure, by the job's policy or its manifest's."""
    decided = _Decided()
    failed = [end for end in settled if end.state is TrainState.FAILED]
    of_manifests = {
        end.manifest_id: EndedRun(end.id, buckets[end.id]) for end in failed if end.manifest_id is not None
    }
    policies = yield from read_policies(of_manifests, of_manifests)
    for end in failed:
        policy = _ad_hoc_policy(end, settings) if end.manifest_id is None else policies.get(end.manifest_id)
        if policy is None:  # the manifest is gone
            continue
        match aftermath(end, policy, settings):
            case RetryPlan() as retry:
                decided.retries.append((end, retry))
            case Park() as park:
                decided.parks.append((end, park))
                decided.over.add(end.id)
            case Settled(is_open=is_open):
                decided.over |= set() if is_open else {end.id}
            case unknown:
                assert_never(unknown)
    return decided


def _record_on_manifests(settled: Sequence[RunEnd], decided: _Decided) -> Operation[set[int]]:
    """Record ends on their manifests; return the manifests that have waiting entries."""
    exhausted = {end.id for end, _ in decided.parks}
    rows = [
        {
            "manifest_id": end.manifest_id,
            "run_id": end.id,
            "state": end.state.value,
            "ended": decided.end_of(end),
            "is_counted": end.is_counted,
            "needs_look": end.id in exhausted,
        }
        for end in settled
        if end.manifest_id is not None
    ]
    if not rows:
        return set()
    recorded = yield batch("record_manifest_ends", rows)
    yield from _keep_outputs(settled, {row.id for row in recorded if row.is_output_kept})
    released = yield statement("release_entries", manifest_ids=[row["manifest_id"] for row in rows])
    for owner in {row.owner for row in released if row.is_ready}:
        yield statement("notify", payload=f"work:{owner}")
    for owner in {row.owner for row in recorded if row.is_due}:
        yield statement("notify", payload=f"manager:{owner}")
    return {row.id for row in recorded if row.has_waiting}


def _keep_outputs(settled: Iterable[RunEnd], manifest_ids: set[int]) -> Operation[None]:
    """Keep the outputs that dependents take as their input; most manifests have no such dependent."""
    outputs = [
        {"manifest_id": end.manifest_id, "output": end.output_json or "null"}
        for end in settled
        if end.manifest_id in manifest_ids
    ]
    yield batch("keep_outputs", outputs)


def _queue_retries(
    retries: Sequence[tuple[RunEnd, RetryPlan]],
    manifests: Mapping[int, Row],
    buckets: Mapping[int, str | None],
) -> Operation[dict[int, int]]:
    """Queue the next attempts; the result maps a failed run to its next entry.

    A queued entry of the manifest with an equal input is reused; with another input it steps back.
    """
    retried = yield from _write_retries(retries, manifests, buckets)
    met = [each for each in retries if each[0].id not in retried]
    beside = {end.id: buckets[end.id] for end, _ in met if end.manifest_id is not None}
    if beside:
        placed = yield from make_way_for_retries(beside)
        again = [each for each in met if each[0].id in placed]
        retried |= yield from _write_retries(again, manifests, buckets)
    yield from _carry_losses([each for each in met if each[0].id not in retried])
    return retried


def _write_retries(
    retries: Sequence[tuple[RunEnd, RetryPlan]],
    manifests: Mapping[int, Row],
    buckets: Mapping[int, str | None],
) -> Operation[dict[int, int]]:
    rows = yield batch(
        "queue_retries",
        [
            {
                "id": end.id,
                "bucket": buckets[end.id],
                "delay_seconds": retry.delay.total_seconds(),
                "failures": retry.failures,
                "losses": retry.losses,
                "lone_losses": retry.lone_losses,
                "unique_key": end.unique_key,
                "is_open": end.manifest_id is None or manifests[end.manifest_id].is_open,
            }
            for end, retry in retries
        ],
    )
    return {row.retry_of: row.id for row in rows}


def _carry_losses(served: Sequence[tuple[RunEnd, RetryPlan]]) -> Operation[None]:
    """Copy the loss counts of a job to the queued entry that is reused as its next attempt."""
    yield batch(
        "carry_losses",
        [
            {
                "manifest_id": end.manifest_id,
                "losses": retry.losses,
                "lone_losses": retry.lone_losses,
            }
            for end, retry in served
            if end.manifest_id is not None and retry.losses
        ],
    )


def _settle_keys(settled: Sequence[RunEnd], retried: Mapping[int, int]) -> Operation[None]:
    """Pass a unique key on to the next attempt, or release it once the job is over."""
    holders = [end.id for end in settled if end.unique_key is not None]
    if not holders:
        return
    passed = [{"holder_id": holder, "heir_id": retried[holder]} for holder in holders if holder in retried]
    yield batch("pass_keys", passed)
    over = [holder for holder in holders if holder not in retried]
    if over:
        yield statement("release_keys", holder_ids=over)


def _wake(
    rules: FinishRules, retries: Sequence[tuple[RunEnd, RetryPlan]], promoted: Rows, *, tells_room: bool
) -> Operation[None]:
    """Notify workers once: of work to claim now, or of a later instant."""
    is_ready = any(not retry.delay for _, retry in retries)
    if is_ready or tells_room:
        yield from announce_work([rules.owner])
    elif retries:
        yield statement("notify", payload=f"later:{rules.owner}")
    yield from announce_promoted(promoted)
