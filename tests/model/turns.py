"""Entries whose turn has not come: none is lost, none overtakes, and none waits without a reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.moving import Step
    from tests.model.snapshot import Row, Snapshot

STEPS_BACK = {"finish", "cycle", "put back", "resolve"}


def same_input(one: Row, other: Row) -> bool:
    """Whether two entries are to run with the same input."""
    return bool(_read(one["input"]) == _read(other["input"]))


def _read(text: str | None) -> str:
    return json.dumps(json.loads(text or "null"), sort_keys=True)


def is_open(seen: Snapshot, manifest: Row) -> bool:
    """Whether no guard but the queue itself holds a manifest back."""
    is_on = manifest["is_enabled"] and seen.groups[manifest["manifest_group_id"]]["is_enabled"]
    is_spent = manifest["is_retried"] and manifest["failure_count"] >= max(1, manifest["max_retries"])
    is_parked = is_spent or seen.is_awaited(manifest["id"])
    return bool(is_on and manifest["orphaned_at"] is None and not is_parked)


def standing_turns(seen: Snapshot) -> Iterator[str]:
    """Nothing waits for a turn that has come."""
    for entry in seen.waiting.values():
        manifest = seen.manifests.get(entry["manifest_id"])
        if manifest is None:
            yield f"entry {entry['id']} waits for the turn of a manifest that is gone"
        elif _is_free(seen, manifest) and (entry["origin"] == "trigger" or is_open(seen, manifest)):
            yield f"entry {entry['id']} ({entry['origin']}) waits although its turn has come"


def _is_free(seen: Snapshot, manifest: Row) -> bool:
    return manifest["active_run_id"] is None and not seen.waiting_of(manifest["id"])


def moving_turns(before: Snapshot, after: Snapshot, step: Step) -> Iterator[str]:
    """What was kept stays until it runs or a person cancels it, in its order."""
    for entry_id, entry in before.entries.items():
        now = after.entries.get(entry_id)
        change = (entry["status"], "gone" if now is None else now["status"])
        if change == ("waiting", "cancelled"):
            is_allowed = entry_id in step.cancelled or entry["manifest_id"] not in after.manifests
        elif change == ("queued", "waiting"):
            is_allowed = step.kind in STEPS_BACK
        else:
            is_allowed = entry["status"] != "waiting" or change[1] in {"waiting", "queued"}
        if not is_allowed:
            yield f"entry {entry_id} went from {change[0]} to {change[1]} in {step.kind}"
        if change == ("waiting", "queued") and now is not None:
            yield from _overtaken(before, after, now)
    yield from _activated(after, step)


def _overtaken(before: Snapshot, after: Snapshot, promoted: Row) -> Iterator[str]:
    manifest = after.manifests[promoted["manifest_id"]]
    for entry_id, entry in after.waiting.items():
        is_older = entry["manifest_id"] == manifest["id"] and entry_id < promoted["id"]
        may_run = entry["origin"] == "trigger" or is_open(after, manifest)
        if is_older and may_run and entry_id in before.waiting:
            yield f"entry {promoted['id']} has its turn before entry {entry_id}"


def _activated(after: Snapshot, step: Step) -> Iterator[str]:
    by_name = {manifest["external_id"]: manifest["id"] for manifest in after.manifests.values()}
    to_come = [*after.queued.values(), *after.waiting.values()]
    kept = {(entry["manifest_id"], _read(entry["input"])) for entry in to_come}
    for name, text in step.activated:
        if (by_name[name], _read(text)) not in kept:
            yield f"the activation of {name} with {text} is lost"
