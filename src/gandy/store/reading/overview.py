"""What the home page counts, and the graph of dependents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.errors import GroupNotFoundError
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from gandy.store.statements import Operation, Row, Rows


#: Counting ends here; what is shown then says "or more".
COUNTED: Final = 10_000
#: So many of the newest runs are looked at for the charts.
SAMPLED: Final = 5_000
_GROUPS: Final = 1_000


def count_waiting(owner: str) -> Operation[Rows]:
    """Count what waits, by the gate that holds it."""
    return (yield statement("count_waiting", owner=owner, limit=COUNTED))


def list_unknown_trains(owner: str) -> Operation[Rows]:
    """Name the trains that have work and no worker."""
    return (yield statement("list_unknown_trains", owner=owner, limit=COUNTED))


def list_queue_heads(owner: str) -> Operation[Rows]:
    """Find the entries that go next, of the groups whose next one has waited longest."""
    return (yield statement("list_queue_heads", owner=owner, limit=_GROUPS))


def count_live_runs(owner: str) -> Operation[Rows]:
    """Count what is pending and in progress."""
    return (yield statement("count_live_runs", owner=owner, limit=COUNTED))


def list_live_runs(owner: str, limit: int) -> Operation[Rows]:
    """List what runs now, the longest first."""
    return (yield statement("list_live_runs", owner=owner, limit=limit, searched=COUNTED))


def count_recent_ends(owner: str, *, since: datetime, own_trains: Sequence[str]) -> Operation[Rows]:
    """Count the newest runs by the minute of their end; Gandy's own trains are left out."""
    return (
        yield statement(
            "count_recent_ends", owner=owner, since=since, own_trains=list(own_trains), limit=SAMPLED
        )
    )


def count_awaiting_letters(owner: str) -> Operation[int]:
    """Count the dead letters that wait for a person."""
    return int((yield statement("count_all_awaiting_letters", owner=owner, limit=COUNTED))[0].letters)


def list_lost_workers(owner: str) -> Operation[Rows]:
    """List workers that ended without saying so."""
    return (yield statement("list_lost_workers", owner=owner))


def find_most_overdue(owner: str, patience: timedelta) -> Operation[Row | None]:
    """Find the manifest that has waited longest for its look."""
    seconds = patience.total_seconds()
    rows = yield statement("find_most_overdue", owner=owner, patience_seconds=seconds)
    return rows[0] if rows else None


#: So many manifests are looked at, and so many dependencies drawn.
LOOKED_AT: Final = 2_000
DRAWN: Final = 200


def list_dependencies(owner: str, group: str | None) -> Operation[Rows]:
    """List the dependencies of an application, or those that touch one of its groups."""
    if group is None:
        return (yield statement("list_dependencies", owner=owner, members=LOOKED_AT, limit=DRAWN))
    found = yield statement("find_group", owner=owner, name=group)
    if not found:
        raise GroupNotFoundError(owner, group)
    group_id = found[0].id
    of = {"owner": owner, "group_id": group_id}
    return (yield statement("list_group_dependencies", members=LOOKED_AT, limit=DRAWN, **of))
