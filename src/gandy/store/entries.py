"""Entries of the work queue as a person sees them, and runs that are run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from gandy.errors import RunNotFoundError, RunNotOverError
from gandy.model.manifest import DEFAULT_GROUP
from gandy.store.groups import ensure_groups
from gandy.store.runs import load_run
from gandy.store.searching import below, search
from gandy.store.statements import statement

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from gandy.store.searching import Search
    from gandy.store.statements import Operation

EntryStatus: TypeAlias = Literal["queued", "waiting", "dispatched", "cancelled", "skipped"]
WantedStatus: TypeAlias = EntryStatus | Literal["undispatched"]
"""A status, or what is still to be done: queued and waiting."""
Gate: TypeAlias = Literal["open", "time", "manifest", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Which entries to list; None does not filter."""

    status: WantedStatus | None = None
    gate: Gate | None = None
    train: str | None = None
    group: str | None = None
    before: int | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Rerun:
    """A run that was queued again; the id is the new run's."""

    id: int
    repeats: int
    owner: str
    train: str


def list_entries(wanted: EntryFilter, owners: Owners) -> Operation[Search]:
    """Read the newest entries."""
    given = {
        "owner": owners.bound,
        "status": wanted.status,
        "gate": wanted.gate,
        "train": wanted.train,
        "group": wanted.group,
        "before": below(wanted.before),
    }
    return (yield from search("search_entries", given, limit=wanted.limit, gather=_gather(wanted)))


def _gather(wanted: EntryFilter) -> str | None:
    """Name the statement that finds what is wanted together, unless it is among what became runs."""
    match wanted.status:
        case "queued" | "waiting" | "undispatched":
            return "gather_queued_entries"
        case "cancelled" | "skipped":
            return "gather_settled_entries"
        case _:
            is_queued = wanted.status is None and wanted.gate is not None
            return "gather_queued_entries" if is_queued else None


def queue_rerun(run_id: int, *, owners: Owners, input_json: str | None = None) -> Operation[Rerun]:
    """Queue a run that is over once more, with its own input or another, outside its manifest."""
    run = yield from load_run(run_id, owners)
    if run is None:
        raise RunNotFoundError(run_id)
    groups = yield from ensure_groups(run.owner, [DEFAULT_GROUP])
    default_group_id = groups[DEFAULT_GROUP].id
    rows = yield statement(
        "queue_rerun", id=run_id, owner=run.owner, input=input_json, default_group_id=default_group_id
    )
    if not rows:
        raise RunNotOverError(run_id, run.state)
    yield statement("notify", payload=f"work:{run.owner}")
    return Rerun(rows[0].id, run_id, run.owner, run.train)
