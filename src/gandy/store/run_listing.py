"""The newest runs, by whichever index leads to those that are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.model.run import TrainState
from gandy.store.owners import narrowed_to_manifest
from gandy.store.searching import below, search

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from gandy.store.searching import Search
    from gandy.store.statements import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs to list; None does not filter."""

    train: str | None = None
    state: str | None = None
    manifest: str | None = None
    before: int | None = None
    limit: int = 50


def list_runs(wanted: RunFilter, owners: Owners) -> Operation[Search]:
    """Read the newest runs."""
    owners = yield from narrowed_to_manifest(owners, wanted.manifest)
    given = {
        "owner": owners.bound,
        "train": wanted.train,
        "state": wanted.state,
        "before": below(wanted.before),
    }
    if wanted.manifest is not None:
        walk = "search_runs_of_manifest"
        return (yield from search(walk, {**given, "manifest": wanted.manifest}, limit=wanted.limit))
    gather = None if wanted.train is None else "gather_runs_of_train"
    return (yield from search(_walk(wanted.state), given, limit=wanted.limit, gather=gather))


def _walk(state: str | None) -> str:
    match state:
        case TrainState.PENDING | TrainState.IN_PROGRESS:
            return "search_live_runs"
        case TrainState.FAILED | TrainState.CANCELLED:
            return "search_unsuccessful_runs"
        case _:
            return "search_runs"
