"""Queries of the home page, and the graph of dependents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.errors import GroupNotFoundError
from gandy.store.statements import statement

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.store.statements import Operation, Row, Rows


#: The limit of counts; a count at the limit is shown as "or more".
COUNTED: Final = 10_000
_GROUPS: Final = 1_000


def count_waiting(owner: str) -> Operation[Rows]:
    """Count the entries to be dispatched, by gate."""
    return (yield statement("count_waiting", owner=owner, limit=COUNTED))


def list_unknown_trains(owner: str) -> Operation[Rows]:
    """List the trains that have entries but no worker."""
    return (yield statement("list_unknown_trains", owner=owner, limit=COUNTED))


def list_queue_heads(owner: str) -> Operation[Rows]:
    """Find the next entry of each group, for the groups whose next entry has waited longest."""
    return (yield statement("list_queue_heads", owner=owner, limit=_GROUPS))


def count_live_runs(owner: str) -> Operation[Rows]:
    """Count the runs that are pending and in progress."""
    return (yield statement("count_live_runs", owner=owner, limit=COUNTED))


def list_live_runs(owner: str, limit: int) -> Operation[Rows]:
    """List the runs in progress, the oldest first."""
    return (yield statement("list_live_runs", owner=owner, limit=limit, searched=COUNTED))


def count_awaiting_letters(owner: str) -> Operation[int]:
    """Count the dead letters that await an operator."""
    return int((yield statement("count_all_awaiting_letters", owner=owner, limit=COUNTED))[0].letters)


def list_lost_workers(owner: str) -> Operation[Rows]:
    """List workers that ended without a clean shutdown."""
    return (yield statement("list_lost_workers", owner=owner))


def find_most_overdue(owner: str, patience: timedelta) -> Operation[Row | None]:
    """Find the manifest that has waited longest for its look."""
    seconds = patience.total_seconds()
    rows = yield statement("find_most_overdue", owner=owner, patience_seconds=seconds)
    return rows[0] if rows else None


#: The maximum number of manifests read, and of dependencies drawn.
LOOKED_AT: Final = 2_000
DRAWN: Final = 200
#: Each of them has an edge to draw.
_FOLLOWERS: Final = 500


def list_dependencies(owner: str, group: str | None) -> Operation[Rows]:
    """List the dependencies of an application, or those that touch one of its groups."""
    if group is None:
        # Without statistics, all edges of an owner look few enough to be sorted.
        yield statement("keep_order")
        return (yield statement("list_dependencies", owner=owner, members=_FOLLOWERS, limit=DRAWN))
    found = yield statement("find_group", owner=owner, name=group)
    if not found:
        raise GroupNotFoundError(owner, group)
    group_id = found[0].id
    of = {"owner": owner, "group_id": group_id}
    return (yield statement("list_group_dependencies", members=LOOKED_AT, limit=DRAWN, **of))
