"""Ending abandoned runs as a set: one that cannot be ended keeps no other from being ended."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from gandy.store.reaping import AT_ONCE, Reaped, end_abandoned, end_bare
from gandy.store.statements import write_halved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from gandy.store.drivers.database import Transaction
    from gandy.store.reaping import AbandonedRun, ReapRules
    from gandy.store.statements import Operation, Refused

_log = logging.getLogger("gandy.manifest_manager")

#: A page of runs that cannot be ended must not hide those behind it; a cycle reads no more pages than this.
_PAGES: Final = 10
_NAMED: Final = 5


async def reap(
    transaction: Transaction, find: Callable[[int], Operation[list[AbandonedRun]]], rules: ReapRules
) -> Reaped:
    """End what `find` finds after an id, page by page for as long as a page holds runs that stay."""
    total, after = Reaped(), 0
    for _ in range(_PAGES):
        found = await transaction.run(find(after))
        part, stays = await _end(transaction, found, rules)
        total = _plus(total, part)
        if not stays or len(found) < AT_ONCE:
            break
        after = found[-1].end.id
    return total


async def _end(
    transaction: Transaction, found: Sequence[AbandonedRun], rules: ReapRules
) -> tuple[Reaped, bool]:
    """End runs; what is refused is ended bare, and what is refused even so stays for the next cycle."""
    if not found:
        return Reaped(), False
    # Charging is harmless: the refused are only ended in a simpler way, by a write that may be refused too.
    usual = await write_halved(found, _writing(transaction, end_abandoned, rules), charges_all=True)
    if not usual.refused:
        return _plus(*usual.written), False
    rest = [refused.item for refused in usual.refused]
    bare = await write_halved(rest, _writing(transaction, end_bare, rules), charges_all=True)
    _tell("was ended without its extras", usual.refused)
    _tell("cannot be ended and is tried again by the next cycle", bare.refused)
    return _plus(*usual.written, *bare.written), bool(bare.refused)


def _writing(
    transaction: Transaction,
    end: Callable[[Sequence[AbandonedRun], ReapRules], Operation[Reaped]],
    rules: ReapRules,
) -> Callable[[Sequence[AbandonedRun]], Awaitable[Reaped]]:
    async def write(runs: Sequence[AbandonedRun]) -> Reaped:
        async with transaction.savepoint():
            return await transaction.run(end(runs, rules))

    return write


def _tell(what: str, refused: Sequence[Refused[AbandonedRun]]) -> None:
    for each in refused[:_NAMED]:
        run = each.item.end
        _log.error("abandoned run %s of %s %s: %s", run.id, run.train, what, each.error)
    if len(refused) > _NAMED:
        _log.error("%s more abandoned runs likewise", len(refused) - _NAMED)


def _plus(*parts: Reaped) -> Reaped:
    return Reaped(
        sum(part.runs for part in parts),
        frozenset().union(*(part.manifest_ids for part in parts)),
        sum((Counter(part.causes) for part in parts), Counter()),
    )
