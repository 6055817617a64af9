"""Running a manifest because somebody asks for it, and removing one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gandy.errors import (
    ManifestDeclaredError,
    ManifestInUseError,
    ManifestNotFoundError,
    TriggerInputConflictError,
)
from gandy.store.statements import statement
from gandy.store.waiting import input_digest

if TYPE_CHECKING:
    from gandy.store.statements import Operation, Row

_AT_ONCE: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Triggered:
    """The entry that will run; its id is the run's."""

    id: int
    external_id: str
    scheduled_at: datetime
    is_new: bool  #: False: it was waiting already, and runs at the earlier of the two instants


def trigger(
    external_id: str, *, owner: str, delay: timedelta = _AT_ONCE, input_json: str | None = None
) -> Operation[Triggered]:
    """Queue a manifest, switched off or not; where an entry waits, that entry serves."""
    manifest = yield from lock_manifest(external_id, owner=owner)
    seconds = delay.total_seconds()
    text = manifest.properties if input_json is None else input_json
    of = {"manifest_id": manifest.id, "owner": owner}
    rows = yield statement("queue_trigger", input=text, delay_seconds=seconds, **of)
    is_new = bool(rows)
    if not rows:
        waiting = yield statement("find_waiting", **of)
        if input_json is not None and input_digest(waiting[0].input) != input_digest(input_json):
            raise TriggerInputConflictError(external_id, waiting[0].id)
        is_off = not (manifest.is_enabled and manifest.is_group_enabled)
        rows = yield statement(
            "hasten_entry", id=waiting[0].id, owner=owner, delay_seconds=seconds, is_off=is_off
        )
    yield statement("notify", payload=f"{'later' if delay else 'work'}:{owner}")
    return Triggered(rows[0].id, external_id, rows[0].scheduled_at, is_new)


def trigger_group(owner: str, name: str) -> Operation[tuple[Triggered, ...]]:
    """Queue every manifest of a group."""
    members = yield statement("list_group_members", owner=owner, name=name)
    triggered: list[Triggered] = []
    for member in members:
        triggered.append((yield from trigger(member.external_id, owner=owner)))  # noqa: PERF401 a comprehension cannot yield
    return tuple(triggered)


def remove_manifest(external_id: str, *, owner: str) -> Operation[bool]:
    """Remove a manifest with what waits for it; False: it still runs, and goes when it has ended."""
    manifest = yield from lock_manifest(external_id, owner=owner)
    if manifest.origin == "declared" and not manifest.is_orphaned:
        raise ManifestDeclaredError(external_id)
    of = {"manifest_id": manifest.id, "owner": owner}
    found = (yield statement("find_hindrances", **of))[0]
    if found.dependent is not None:
        raise ManifestInUseError(external_id, f"{found.dependent!r} depends on it; remove that first")
    if found.letter_id is not None:
        raise ManifestInUseError(
            external_id, f"dead letter {found.letter_id} waits for a person; requeue or acknowledge it first"
        )
    yield statement("cancel_waiting", **of)
    if found.active_run_id is not None:
        yield statement("orphan_manifest", **of)
        return False
    yield statement("forget_letters", **of)
    yield statement("delete_manifest", **of)
    return True


def lock_manifest(external_id: str, *, owner: str) -> Operation[Row]:
    """Find a manifest of this owner and hold its row."""
    rows = yield statement("lock_manifest", external_id=external_id, owner=owner)
    if not rows:
        raise ManifestNotFoundError(external_id)
    return rows[0]
