"""Claims in one statement, for workers that need a few runs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.store.dispatching import FEW, NOTHING, ClaimTerms, Dispatched, claimed_run, dispatch
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.store.dispatching import DispatchRequest
    from gandy.store.statements import Operation

_MOST_SEEN: Final = 32  # pairs of group and train with ready work that the statement looks at
_MOST_LOCKED: Final = 256  # entries that it locks to choose from them


def fits_plainly(request: DispatchRequest, caps: Sequence[int], *, is_woken: bool) -> bool:
    """Return whether to try one statement: for a worker that is woken, and for a few more runs."""
    if caps:  # a claim beyond the free slots weighs what to hold under a cap
        return request.limit <= min(FEW, request.free_slots or 0)
    return is_woken or request.limit <= FEW


def claim_plain(request: DispatchRequest, caps: Sequence[int] = ()) -> Operation[Dispatched]:
    """Claim by one statement, if no chosen entry needs more; `caps` are groups to lock before."""
    locked = {row.id for row in (yield statement("lock_capped_groups", ids=list(caps)))} if caps else set()
    if len(locked) < len(caps):
        return NOTHING
    rows = yield statement(
        "claim_plain",
        owner=request.owner,
        trains=list(request.trains),
        limit=request.limit,
        turn=request.turn,
        worker_id=request.worker_id,
        default_timeout_seconds=request.default_timeout_seconds,
        locked=list(caps),
        most_seen=_MOST_SEEN,
        most_locked=_MOST_LOCKED,
    )
    if not rows:
        return NOTHING
    start = ClaimTerms(rows[0].fence, rows[0].started_at, request.default_timeout_seconds)
    in_order = sorted(rows, key=lambda row: (-row.rank, row.id))
    runs = [claimed_run(row, start, None) for row in in_order]
    if locked:
        runs = [run._replace(is_capped=True) if run.group_id in locked else run for run in runs]
    is_contended = rows[0].is_contended and len(rows) < request.limit
    return Dispatched(tuple(runs), is_contended=is_contended, caps=tuple(caps))


def claim_shortly(request: DispatchRequest, caps: Sequence[int] | None) -> Operation[Dispatched]:
    """Claim by one statement if the caps are known, else, or if that takes nothing, in the usual way."""
    if caps is not None:
        found = yield from claim_plain(request, caps)
        if found.runs:
            return found
    return (yield from dispatch(request))
