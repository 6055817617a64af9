"""Entries whose turn has not come: they wait beside the queue, and one takes the free place in it."""

from __future__ import annotations

import hashlib
import json
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gandy.store.statements import Operation, Row, Rows

MOST_WAITING: Final = 10_000  #: activations of one manifest


class _Number(str):
    """A number as it is written: reading it would make different ones equal, such as 1, 1.0 and true."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def input_digest(input_json: str | None) -> str:
    """Return one text for equal inputs, whatever the order of their keys; unequal ones never share it."""
    text = "null" if input_json is None else input_json
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_by_key)
        text = repr(value)
    except RecursionError:  # nested too deeply to be read: equal only where it is written alike
        pass
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _by_key(pairs: list[tuple[str, object]]) -> tuple[tuple[str, object], ...]:
    """Order the fields of an object; a tuple, so that no array equals it."""
    return tuple(sorted(pairs, key=itemgetter(0)))


def promote(manifest_ids: Collection[int]) -> Operation[Rows]:
    """Queue the next waiting entry of each manifest that no guard holds; the caller holds their locks."""
    if not manifest_ids:
        return []
    return (yield statement("promote_waiting", ids=sorted(manifest_ids)))


def promote_and_announce(manifest_ids: Collection[int]) -> Operation[int]:
    """Promote, and tell the workers of each owner that there is, or will be, something to claim."""
    rows = yield from promote(manifest_ids)
    yield from announce_promoted(rows)
    return len(rows)


def announce_promoted(rows: Iterable[Row]) -> Operation[None]:
    """Tell the workers about promoted entries, each owner once."""
    ready: dict[str, bool] = {}
    for row in rows:
        ready[row.owner] = ready.get(row.owner, False) or bool(row.is_ready)
    for owner in sorted(ready):
        yield statement("notify", payload=f"{'work' if ready[owner] else 'later'}:{owner}")


def promote_of_groups(owner: str, group_ids: Sequence[int]) -> Operation[None]:
    """Promote what waited for groups to be switched on."""
    found = yield statement("find_waiting_of_groups", group_ids=list(group_ids), owner=owner)
    ids = [row.id for row in found]
    if ids:
        yield statement("lock_manifests", ids=ids)
    yield from promote_and_announce(ids)


def make_way(run_ids: Sequence[int]) -> Operation[set[int]]:
    """Step queued entries back for runs with another input; return the runs that now have the place.

    An entry with an equal input stays: it serves in the place of the run.
    """
    beside = yield statement("find_queued_beside", ids=list(run_ids))
    others = [row for row in beside if input_digest(row.input) != input_digest(row.queued_input)]
    yield from step_back([(row.queued_id, row.queued_input) for row in others])
    return {row.id for row in others}


def step_back(entries: Iterable[tuple[int, str | None]]) -> Operation[None]:
    """Return queued entries to the waiting ones, where their ids keep their order."""
    rows = [{"id": entry_id, "digest": input_digest(text)} for entry_id, text in entries]
    yield batch("step_back_entries", rows)


class HealedWaiting(NamedTuple):
    """What the slow pass found among the manifests with waiting entries."""

    last_id: int | None  #: None: the pass has come to its end
    promoted: int
    cancelled: int


def heal_waiting(after: int, limit: int) -> Operation[HealedWaiting]:
    """Promote what was missed on one page of manifests, and cancel entries whose manifest is gone."""
    found = yield statement("page_waiting_manifests", after=after, limit=limit)
    if not found:
        return HealedWaiting(None, 0, 0)
    there = [row.id for row in found if row.has_manifest]
    locked = (yield statement("lock_idle_manifests", ids=there)) if there else []
    promoted = yield from promote_and_announce([row.id for row in locked])
    stranded = [row.id for row in found if not row.has_manifest]
    cancelled = (yield statement("cancel_stranded", manifest_ids=stranded)) if stranded else []
    last = found[-1].id if len(found) >= limit else None
    return HealedWaiting(last, promoted, len(cancelled))
