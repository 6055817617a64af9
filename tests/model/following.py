"""What dependents may follow: each end once, by the counts on their parents."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tests.model.snapshot import Row, Snapshot


SEEN = ("success_seen", "failure_seen", "end_seen")
KEPT = timedelta(days=1)  #: what was seen of a former parent
COUNTED = ("success_count", "final_failure_count", "end_count")


def following_faults(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """A dependent is queued only after a new end of each parent; it sees ends then, and at no other time."""
    queued = {
        entry["manifest_id"]: entry
        for entry_id, entry in after.entries.items()
        if entry["origin"] == "dependent" and entry_id not in before.entries
    }
    for edge_id, edge in after.edges.items():
        was, entry = before.edges.get(edge_id), queued.get(edge["child_id"])
        if was is None or was["kind"] != edge["kind"] or was["is_output_passed"] != edge["is_output_passed"]:
            continue
        if entry is None and edge["seen"] != was["seen"]:
            yield f"edge {edge_id} saw {was['seen']}, now {edge['seen']}, and its dependent was not queued"
        elif entry is not None and not was["seen"] < edge["seen"] <= after.ended(edge):
            yield f"edge {edge_id} saw {was['seen']}, then {edge['seen']} of {after.ended(edge)}"
        if entry is not None and edge["is_output_passed"]:
            yield from _input(after, edge, entry)
    yield from _sight_faults(before, after, queued.keys())


def _sight_faults(before: Snapshot, after: Snapshot, queued: Collection[object]) -> Iterator[str]:
    """What a dependent has seen changes when it is queued, and never with its declaration."""
    for place, sight in after.sights.items():
        parent, seen = after.manifests[sight["parent_id"]], _counts(sight, SEEN)
        known, ended = before.sights.get(place), _counts(parent, COUNTED)
        if known is None and seen != ended:
            yield f"the new edge {place} has seen {seen} of {ended}"
        elif known is not None and sight["child_id"] not in queued and seen != _counts(known, SEEN):
            yield f"edge {place} had seen {_counts(known, SEEN)}, now {seen}, with nothing queued"
        elif any(one > other for one, other in zip(seen, ended, strict=True)):
            yield f"edge {place} has seen {seen} of {ended}"
    for place in before.sights.keys() - after.sights.keys():
        known = before.sights[place]
        dropped_at = known["dropped_at"] or after.now
        if {
            known["child_id"],
            known["parent_id"],
        } <= after.manifests.keys() and after.now - dropped_at < KEPT:
            yield f"what edge {place} had seen is forgotten"


def _counts(row: Row, names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(int(row[name]) for name in names)


def _input(after: Snapshot, edge: Row, entry: Row) -> Iterator[str]:
    """Each run gives its id as its output."""
    newest = after.manifests[edge["parent_id"]]["last_successful_run_id"]
    if entry["input"] != str(newest):
        yield f"entry {entry['id']} takes {entry['input']}, and the newest output is {newest}"


@dataclass(slots=True)
class Ends:
    """How the occurrences of one manifest ended."""

    completed: int = 0
    cancelled: int = 0
    failed: set[int] = field(default_factory=set)  #: runs that no attempt can follow
    open: set[int] = field(default_factory=set)  #: failed runs that an attempt may follow in another way

    def take_failure(self, run: Row, after: Snapshot) -> None:
        """Judge a failure by what is on record: another attempt, a letter, or neither."""
        manifest = after.manifests[run["manifest_id"]]
        if not manifest["is_retried"]:
            self.failed.add(run["id"])
        elif all(entry["retry_of"] != run["id"] for entry in after.entries.values()):
            self.open.add(run["id"])

    def faults(self, manifest: Row, after: Snapshot) -> Iterator[str]:
        """Compare with the counters: a parked job has failed, and every end is counted once."""
        letters = [each for each in after.letters.values() if each["manifest_id"] == manifest["id"]]
        self.failed |= {letter["metadata_id"] for letter in letters}
        self.open -= self.failed
        name, final = manifest["external_id"], manifest["final_failure_count"]
        if not len(self.failed) <= final <= len(self.failed) + len(self.open):
            yield f"manifest {name} counts {final} final failures; {self.failed} failed, {self.open} may have"
        if manifest["end_count"] != self.completed + self.cancelled + final:
            yield f"manifest {name} counts {manifest['end_count']} ends; {self} with {final} final failures"
