"""The small model: who holds which run, how often each manifest failed and succeeded, what is decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.model.run import EndedBy
from tests.model.following import Ends
from tests.model.moving import is_rescheduled, newly_ended
from tests.model.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.moving import Step
    from tests.model.site import Claim
    from tests.model.snapshot import Row, Snapshot

UNCOUNTED = {EndedBy.SHUTDOWN, EndedBy.LOST_WORKER}


@dataclass(slots=True)
class Counts:
    """What decides about a manifest."""

    failures: int = 0
    successes: int = 0


@dataclass(slots=True)
class Ledger:
    """What ought to be on record."""

    holders: dict[int, tuple[str, int]] = field(default_factory=dict)  # worker and fence of runs in progress
    fences: set[int] = field(default_factory=set)
    counts: dict[int, Counts] = field(default_factory=dict)
    ends: dict[int, Ends] = field(default_factory=dict)
    timelines: dict[int, Timeline] = field(default_factory=dict)

    def holds(self, claim: Claim) -> bool:
        """Whether a claim still owns its run."""
        return self.holders.get(claim.run.id) == (claim.worker_id, claim.run.fence)

    def take(self, claims: list[Claim]) -> None:
        """Note what a worker was given: each claim has a fence that no other ever had."""
        fences = {claim.run.fence for claim in claims}
        assert not fences & self.fences, "a fence was given out twice"
        self.fences |= fences
        for claim in claims:
            self.holders[claim.run.id] = claim.worker_id, claim.run.fence

    def follow(self, before: Snapshot, after: Snapshot, step: Step) -> Iterator[str]:
        """Take in what happened, and name what is not as it ought to be."""
        for run_id in step.put_back:
            self.holders.pop(run_id, None)
        for run in newly_ended(before, after):
            self.holders.pop(run["id"], None)
            self._count(run, step)
            self._end(run, after)
        self._cancel(before, after)
        self._forgive(before, after)
        yield from self._claims(after)
        yield from self._counters(after)
        for manifest in after.manifests.values():
            yield from self.ends.setdefault(manifest["id"], Ends()).faults(manifest, after)
        yield from self._verdicts(before, after)

    def _count(self, run: Row, step: Step) -> None:
        counts = self.counts.setdefault(run["manifest_id"] or 0, Counts())
        if run["train_state"] == "completed":
            counts.successes += 1
            counts.failures = 0
        elif run["train_state"] == "failed":
            by = step.ends[run["id"]][1] if run["id"] in step.ends else None
            is_lost = by in UNCOUNTED or run["failure_exception"] == "WorkerLost"
            counts.failures += not is_lost

    def _end(self, run: Row, after: Snapshot) -> None:
        if run["manifest_id"] not in after.manifests:
            return
        ends = self.ends.setdefault(run["manifest_id"], Ends())
        if run["train_state"] == "failed":
            ends.take_failure(run, after)
        ends.completed += run["train_state"] == "completed"
        ends.cancelled += run["train_state"] == "cancelled"

    def _cancel(self, before: Snapshot, after: Snapshot) -> None:
        """Occurrences that were cancelled before they began."""
        for entry_id, entry in after.entries.items():
            was = before.entries.get(entry_id)
            if entry["status"] == "cancelled" and was is not None and was["status"] != "cancelled":
                self.ends.setdefault(entry["manifest_id"] or 0, Ends()).cancelled += 1

    def _forgive(self, before: Snapshot, after: Snapshot) -> None:
        """A letter that a person resolves begins the count anew."""
        for letter_id, letter in before.letters.items():
            now = after.letters.get(letter_id)
            if letter["status"] == "awaiting_intervention" and now and now["status"] != letter["status"]:
                self.counts.setdefault(letter["manifest_id"] or 0, Counts()).failures = 0

    def _claims(self, after: Snapshot) -> Iterator[str]:
        on_record = {
            run["id"]: (run["worker_id"], run["fence"])
            for run in after.live.values()
            if run["train_state"] == "in_progress"
        }
        if on_record != self.holders:
            yield f"runs in progress are {on_record}; claims were given for {self.holders}"

    def _counters(self, after: Snapshot) -> Iterator[str]:
        for manifest in after.manifests.values():
            expected = self.counts.get(manifest["id"], Counts())
            found = Counts(manifest["failure_count"], manifest["success_count"])
            if found != expected:
                yield f"manifest {manifest['external_id']} counts {found} instead of {expected}"

    def _verdicts(self, before: Snapshot, after: Snapshot) -> Iterator[str]:
        """Every instant of a recurring manifest is settled once; the cursor only moves forward."""
        for manifest in after.manifests.values():
            if manifest["schedule_type"] not in {"cron", "interval"}:
                continue
            cursor = manifest["next_scheduled_run"]
            timeline = self.timelines.get(manifest["id"])
            rows = [entry for entry in after.entries.values() if entry["manifest_id"] == manifest["id"]]
            earlier = before.manifests.get(manifest["id"])
            if timeline is None or earlier is None or is_rescheduled(earlier, manifest):
                timeline = self.timelines[manifest["id"]] = _timeline(manifest, rows)
            for fault in timeline.follow(rows, cursor):
                yield f"manifest {manifest['external_id']}: {fault}"


def _timeline(manifest: Row, rows: list[Row]) -> Timeline:
    """Begin at the cursor; what was decided under another schedule is no part of this one."""
    seconds = manifest["interval_seconds"]
    every = None if seconds is None else timedelta(seconds=seconds)
    timeline = Timeline(manifest["cron_expression"], every, manifest["next_scheduled_run"])
    timeline.pass_over(rows)
    return timeline
