"""What may change between two instants, given what was done in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gandy.model.run import EndedBy, TrainState
from tests.model.following import following_faults
from tests.model.snapshot import LIVE
from tests.model.turns import moving_turns, same_input

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.model.snapshot import Row, Snapshot

STALE_PENDING = timedelta(minutes=20)
STALE_IN_PROGRESS = timedelta(minutes=60)
LASTING = ("train_state", "worker_id", "fence", "attempt", "due_at", "end_time", "failure_exception")


@dataclass(frozen=True, slots=True)
class Step:
    """What was done."""

    kind: str
    ends: Mapping[int, tuple[TrainState, EndedBy]] = field(default_factory=dict)  #: that the model accepts
    put_back: frozenset[int] = frozenset()  #: that the model accepts
    cancelled: frozenset[int] = frozenset()
    trusts_leases: bool = False
    cap: int | None = None
    activated: tuple[tuple[str, str], ...] = ()  #: external id and input, of runs that completed


def moving_faults(before: Snapshot, after: Snapshot, step: Step) -> Iterator[str]:
    """Name every change that nothing in the step allows."""
    yield from _runs(before, after, step)
    yield from _entries(before, after, step)
    yield from _letters(before, after, step)
    yield from _parked(before, after)
    yield from _caps(before, after, step)
    yield from _starts(before, after)
    yield from moving_turns(before, after, step)
    yield from following_faults(before, after)
    for run in newly_ended(before, after):
        yield from _end(before, run, step)
        yield from _sequel(after, run)


def newly_ended(before: Snapshot, after: Snapshot) -> list[Row]:
    """Runs that came to their end in this step."""
    return [
        run
        for run_id, run in after.runs.items()
        if run["train_state"] not in LIVE
        and (run_id not in before.runs or before.runs[run_id]["train_state"] in LIVE)
    ]


def _runs(before: Snapshot, after: Snapshot, step: Step) -> Iterator[str]:
    """Nothing unfinished is ever deleted, and nothing finished is ever rewritten."""
    for run_id, run in before.runs.items():
        now = after.runs.get(run_id)
        if run["train_state"] in LIVE:
            if now is None and run_id not in step.put_back:
                yield f"run {run_id} was {run['train_state']} and is gone"
        elif now is None:
            if step.kind != "cleanup" or not _may_go(before, run, after.now):
                yield f"run {run_id} is kept until {run['keep_until']} and is gone"
        elif any(now[name] != run[name] for name in LASTING):
            yield f"run {run_id} had ended and was rewritten: {run} is now {now}"


def _may_go(before: Snapshot, run: Row, now: datetime) -> bool:
    """Its date has passed, or its manifest keeps fewer."""
    manifest = before.manifests.get(run["manifest_id"])
    most = None if manifest is None else manifest["keep_last"]
    newer = sum(
        other["manifest_id"] == run["manifest_id"]
        and other["id"] > run["id"]
        and other["train_state"] not in LIVE
        for other in before.runs.values()
    )
    return bool(run["keep_until"] <= now or (most is not None and newer >= most))


def _entries(before: Snapshot, after: Snapshot, step: Step) -> Iterator[str]:
    for entry_id, entry in before.entries.items():
        now = after.entries.get(entry_id)
        if now is None and (entry["status"] in {"queued", "waiting"} or step.kind != "cleanup"):
            yield f"entry {entry_id} was {entry['status']} and is gone"
        if now is None or now["status"] == entry["status"]:
            continue
        change = (entry["status"], now["status"])
        if change == ("queued", "dispatched") and entry_id not in after.runs:
            yield f"entry {entry_id} is dispatched without a run"
        if entry["status"] in {"cancelled", "skipped"} or (
            entry["status"] == "dispatched" and entry_id not in step.put_back
        ):
            yield f"entry {entry_id} went from {change[0]} to {change[1]}"


def _letters(before: Snapshot, after: Snapshot, step: Step) -> Iterator[str]:
    for letter_id, letter in before.letters.items():
        now = after.letters.get(letter_id)
        if now is None and (letter["status"] == "awaiting_intervention" or step.kind != "cleanup"):
            yield f"letter {letter_id} was {letter['status']} and is gone"


def _parked(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """A letter that waits holds the cursor where it is; its resolution settles all that has come due."""
    for letter_id, letter in before.letters.items():
        was, now = (seen.manifests.get(letter["manifest_id"]) for seen in (before, after))
        if letter["status"] != "awaiting_intervention" or was is None or now is None:
            continue
        if now["schedule_type"] not in {"cron", "interval"} or is_rescheduled(was, now):
            continue
        cursor = now["next_scheduled_run"]
        if letter_id in after.letters and after.letters[letter_id]["status"] == letter["status"]:
            if cursor != was["next_scheduled_run"]:
                yield f"letter {letter_id} waits, and the cursor of its manifest went on to {cursor}"
        elif cursor < after.now:
            yield f"letter {letter_id} was resolved, and the cursor of its manifest stays at {cursor}"


def is_rescheduled(before: Row, after: Row) -> bool:
    """Whether a manifest has other instants than before."""
    names = ("schedule_type", "cron_expression", "interval_seconds")
    return any(before[name] != after[name] for name in names)


def _caps(before: Snapshot, after: Snapshot, step: Step) -> Iterator[str]:
    """Who adds runs stays under the caps; runs that were there before a cap was lowered may be more."""
    added = [run for run_id, run in after.live.items() if run_id not in before.live]
    for group in after.groups.values():
        cap = group["max_active_jobs"]
        active = sum(run["manifest_group_id"] == group["id"] for run in after.live.values())
        if cap is not None and active > cap and any(run["manifest_group_id"] == group["id"] for run in added):
            yield f"group {group['name']} has {active} active runs, and its cap is {cap}"
    if step.cap is not None and added and len(after.live) > step.cap:
        yield f"{len(after.live)} runs are active, and the cap is {step.cap}"


def _starts(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """What is switched off starts nothing but what a person triggered."""
    for run_id in after.live.keys() - before.live.keys():
        entry = after.entries[run_id]
        manifest = before.manifests.get(entry["manifest_id"])
        is_on = before.groups[entry["manifest_group_id"]]["is_enabled"]
        if manifest is not None:
            is_on = is_on and manifest["is_enabled"] and manifest["orphaned_at"] is None
        if not is_on and entry["origin"] != "trigger":
            yield f"run {run_id} ({entry['origin']}) started although it is switched off"


def _end(before: Snapshot, run: Row, step: Step) -> Iterator[str]:
    """Only its own claim ends a run, or who may: an operator before it began, a reaper with a reason."""
    was = before.runs.get(run["id"])
    if was is None:
        yield f"run {run['id']} ended without ever having been live"
    elif run["id"] in step.ends:
        yield from _own_end(was, run, step)
    elif step.kind == "cycle":
        yield from _reaped(before, was, run, step=step)
    elif not (run["id"] in step.cancelled and was["train_state"] == "pending"):
        yield f"run {run['id']} ended as {run['train_state']} in a step that does not end it"


def _own_end(was: Row, run: Row, step: Step) -> Iterator[str]:
    state = step.ends[run["id"]][0]
    is_overruled = was["cancellation_reason"] == "operator" and state is TrainState.FAILED
    expected = TrainState.CANCELLED if is_overruled else state
    if run["train_state"] != expected:
        yield f"run {run['id']} ended as {run['train_state']} instead of {expected}"
    if (run["worker_id"], run["fence"]) != (was["worker_id"], was["fence"]):
        yield f"run {run['id']} was ended by a claim that did not own it"


def _reaped(before: Snapshot, was: Row, run: Row, *, step: Step) -> Iterator[str]:
    match run["failure_exception"]:
        case "WorkerLost":
            worker = before.workers[was["worker_id"]]
            is_due = step.trusts_leases and worker["lease_expires_at"] <= run["end_time"]
        case "NeverStarted":
            is_due = was["train_state"] == "pending" and was["created_at"] <= run["end_time"] - STALE_PENDING
        case "Stale":
            is_due = was["start_time"] <= run["end_time"] - STALE_IN_PROGRESS
        case _:
            is_due = False
    if not is_due:
        yield f"run {run['id']} was reaped ({run['failure_exception']}) without a reason"


def _sequel(after: Snapshot, run: Row) -> Iterator[str]:
    """A failure is followed by another attempt or by a letter; nothing meant to run is lost."""
    if run["train_state"] != "failed":
        return
    manifest = after.manifests.get(run["manifest_id"])
    entry = after.entries.get(run["id"])
    if manifest is None:
        policy = entry["is_retried"] if entry is not None else False
        is_retried = run["manifest_id"] is None and (policy is None or bool(policy))
        is_followed = any(each["retry_of"] == run["id"] for each in after.entries.values())
    else:
        is_retried = bool(manifest["is_retried"])
        is_spent = manifest["failure_count"] >= max(1, manifest["max_retries"])
        is_followed = (
            is_spent
            or _comes_again(manifest)
            or any(entry is None or same_input(each, entry) for each in after.waiting_of(manifest["id"]))
        )
    is_parked = any(letter["metadata_id"] == run["id"] for letter in after.letters.values())
    if is_retried and not (is_followed or is_parked):
        yield f"run {run['id']} failed, and neither another attempt nor a letter follows"


def _comes_again(manifest: Row) -> bool:
    """The coming instants are the attempts that follow a failure which counts, if the pause is longer."""
    if manifest["schedule_type"] not in {"cron", "interval"} or manifest["next_scheduled_run"] is None:
        return False
    period = manifest["interval_seconds"] or 420  # of the one cron expression that is drawn and short
    first = 300 if manifest["retry_delay_seconds"] is None else manifest["retry_delay_seconds"]
    pause = min(first * 2 ** (manifest["failure_count"] - 1), 3600)
    return bool(manifest["failure_count"] > 0 and period < pause)
