"""What is true of the tables at any instant, whatever has happened before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.model.turns import standing_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.snapshot import Row, Snapshot


def standing_faults(seen: Snapshot) -> Iterator[str]:
    """Name every invariant that does not hold."""
    yield from _occurrences(seen)
    yield from _manifests(seen)
    yield from _gates(seen)
    yield from _keys(seen)
    yield from _claims(seen)
    yield from standing_turns(seen)


def _occurrences(seen: Snapshot) -> Iterator[str]:
    """One occurrence, one row of each attempt; at most one entry and one letter wait for a manifest."""
    entries = [entry for entry in seen.entries.values() if entry["manifest_id"] is not None]
    for key, count in Counter((e["manifest_id"], e["due_at"], e["attempt"]) for e in entries).items():
        if count > 1:
            yield f"occurrence {key} is on record {count} times"
    for manifest_id, count in Counter(e["manifest_id"] for e in entries if e["status"] == "queued").items():
        if count > 1:
            yield f"manifest {manifest_id} has {count} waiting entries"
    awaiting = [letter for letter in seen.letters.values() if letter["status"] == "awaiting_intervention"]
    for manifest_id, count in Counter(letter["manifest_id"] for letter in awaiting).items():
        if count > 1 and manifest_id is not None:
            yield f"manifest {manifest_id} has {count} awaiting letters"


def _manifests(seen: Snapshot) -> Iterator[str]:
    """A manifest has at most one live run, and its own row says which."""
    live: dict[int, list[int]] = {}
    for run in seen.live.values():
        if run["manifest_id"] is not None:
            live.setdefault(run["manifest_id"], []).append(run["id"])
    for manifest in seen.manifests.values():
        active = [] if manifest["active_run_id"] is None else [manifest["active_run_id"]]
        if live.pop(manifest["id"], []) != active:
            yield f"manifest {manifest['external_id']} says that {active} is active; the live runs differ"
    for manifest_id, runs in live.items():
        yield f"runs {runs} are live, and their manifest {manifest_id} is gone"


def _gates(seen: Snapshot) -> Iterator[str]:
    """Nothing waits behind a gate that nobody will open."""
    known = _known_trains(seen)
    for entry in seen.queued.values():
        manifest = seen.manifests.get(entry["manifest_id"])
        if entry["manifest_id"] is not None and manifest is None:
            yield f"entry {entry['id']} waits for a manifest that is gone"
        elif entry["gate"] == "manifest" and (manifest is None or _is_free(manifest, entry)):
            yield f"entry {entry['id']} ({entry['origin']}) waits for a manifest that is idle and switched on"
        elif entry["gate"] == "train" and known:
            yield f"entry {entry['id']} waits for a worker, and there is one"


def _is_free(manifest: Row, entry: Row) -> bool:
    is_open = manifest["is_enabled"] and manifest["orphaned_at"] is None
    return manifest["active_run_id"] is None and bool(is_open or entry["origin"] == "trigger")


def _known_trains(seen: Snapshot) -> bool:
    """Every worker of the machine knows every train."""
    return any(
        worker["state"] == "running" and worker["lease_expires_at"] > seen.now
        for worker in seen.workers.values()
    )


def _keys(seen: Snapshot) -> Iterator[str]:
    """A unique key is held by work that is still to come, or runs where it is held until success."""
    for key in seen.keys.values():
        run = seen.live.get(key["id"])
        waits = key["id"] in seen.queued or (run is not None and run["train_state"] == "pending")
        runs = run is not None and key["held_until"] == "success"
        if not (waits or runs):
            yield f"key {key['key']} ({key['held_until']}) is held by job {key['id']}, which is over"


def _claims(seen: Snapshot) -> Iterator[str]:
    """A run in progress has a claim that somebody would miss; its entry is there, for the next attempt."""
    for run in seen.live.values():
        entry = seen.entries.get(run["id"])
        if entry is None or entry["status"] != "dispatched":
            yield f"run {run['id']} is live without its dispatched entry"
        if run["train_state"] == "pending":
            continue
        worker = seen.workers.get(run["worker_id"])
        if run["fence"] is None or worker is None:
            yield f"run {run['id']} is in progress without a claim"
        elif worker["state"] not in {"running", "draining"}:
            yield f"run {run['id']} is in progress with a worker that is {worker['state']}"
