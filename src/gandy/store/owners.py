"""Owners of rows, the layouts of their payloads, and the state that their services keep."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from gandy.errors import (
    GroupAmbiguousError,
    GroupNotFoundError,
    ManifestAmbiguousError,
    ManifestNotFoundError,
    OneOwnerNeededError,
)
from gandy.model.layout import Layouts
from gandy.model.owners import OneOwner
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.model.layout import Layout
    from gandy.model.owners import Owners
    from gandy.store.statements import Dialect, Operation


def list_owners() -> Operation[tuple[str, ...]]:
    """Return the applications that have rows in the database."""
    return tuple(row.owner for row in (yield statement("list_owners")))


def list_owners_of_runs(beyond: str = "") -> Operation[tuple[str, ...]]:
    """Return the applications behind one that have finished runs: their own order is that of the database."""
    return tuple(row.owner for row in (yield statement("list_owners_of_runs", beyond=beyond)))


def single_owner(owners: Owners) -> str:
    """Return the one owner, for an operation that does not support several."""
    if isinstance(owners, OneOwner):
        return owners.name
    raise OneOwnerNeededError("this")


def named_owners(owners: Owners) -> Operation[tuple[str, ...]]:
    """Return the names of the owners, for a listing that goes owner by owner."""
    if isinstance(owners, OneOwner):
        return (owners.name,)
    return (yield from list_owners())


def owner_of_manifest(owners: Owners, external_id: str) -> Operation[str]:
    """Return the owner of a manifest; refuse an id that several owners have, and name them."""
    if isinstance(owners, OneOwner):
        return owners.name
    found = yield from _holders("find_owners_of_manifest", external_id)
    if not found:
        raise ManifestNotFoundError(external_id)
    if len(found) > 1:
        raise ManifestAmbiguousError(external_id, found)
    return found[0]


def owner_of_group(owners: Owners, name: str) -> Operation[str]:
    """Return the owner of a group; refuse a name that several owners have, and name them."""
    if isinstance(owners, OneOwner):
        return owners.name
    found = yield from _holders("find_owners_of_group", name)
    if not found:
        raise GroupNotFoundError(str(owners), name)
    if len(found) > 1:
        raise GroupAmbiguousError(name, found)
    return found[0]


def has_group(owners: Owners, name: str) -> Operation[bool]:
    """Return whether one of the owners has a group of this name."""
    for owner in (yield from named_owners(owners)):
        wanted = {"name": name, "prefix": "", "after": "", "limit": 1, "counted": 1}
        if (yield statement("list_groups", owner=owner, **wanted)):
            return True
    return False


def narrowed_to_manifest(owners: Owners, external_id: str | None) -> Operation[Owners]:
    """Narrow the owners of a listing to the one that has the manifest; without a manifest, change nothing."""
    if external_id is None or isinstance(owners, OneOwner):
        return owners
    return OneOwner((yield from owner_of_manifest(owners, external_id)))


def _holders(name: str, wanted: str) -> Operation[tuple[str, ...]]:
    owners = yield from list_owners()
    rows = yield statement(name, owners=list(owners), name=wanted)
    return tuple(row.owner for row in rows)


@dataclass(frozen=True, slots=True)
class TrainLayout:
    """The layouts of one train's payloads in this version of the code."""

    train: str
    input: Layout
    output: Layout

    @property
    def digest(self) -> str:
        """Identify the layout: equal in every process with the same types."""
        return hashlib.sha256(_text([self.input, self.output]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PayloadLayouts:
    """All known layouts of one train's payloads."""

    input: Layouts
    output: Layouts


def takes_writers(dialect: Dialect) -> bool:
    """Return whether other connections can write while a caller's transaction is open."""
    return dialect == "postgres"


def record_layouts(owner: str, layouts: Sequence[TrainLayout]) -> Operation[None]:
    """Record layouts; existing rows stay unchanged."""
    rows = [
        {
            "train_name": each.train,
            "digest": each.digest,
            "input_layout": _text(each.input),
            "output_layout": _text(each.output),
        }
        for each in layouts
    ]
    if rows:
        yield batch("record_layouts", rows, owner=owner)


def load_layouts(owner: str, train: str, *known: TrainLayout) -> Operation[PayloadLayouts]:
    """Read the recorded layouts of all versions of a train, and add the `known` ones."""
    rows = yield statement("load_layouts", owner=owner, train_name=train)
    return PayloadLayouts(
        Layouts([*(json.loads(row.input_layout) for row in rows), *(each.input for each in known)]),
        Layouts([*(json.loads(row.output_layout) for row in rows), *(each.output for each in known)]),
    )


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


#: After this many refusals of a whole set in a row, each item is refused: no set may stay stuck.
CHARGED_AFTER: Final = 3
_LONGEST_GAP: Final = timedelta(minutes=10)
#: The owner of state that all applications of a database share.
ALL_APPLICATIONS = ""


def recall(key: str, *, owner: str = ALL_APPLICATIONS) -> Operation[Any]:
    """Read the value stored under a key, or None."""
    rows = yield statement("recall", owner=owner, key=key)
    return json.loads(rows[0].value) if rows else None


def remember(key: str, value: object, *, owner: str = ALL_APPLICATIONS) -> Operation[None]:
    """Store a value; None deletes it."""
    if value is None:
        yield statement("forget", owner=owner, key=key)
    else:
        yield statement("remember", owner=owner, key=key, value=json.dumps(value))


def take_turn(key: str, *, every_seconds: float, owner: str = ALL_APPLICATIONS) -> Operation[bool]:
    """Return True to one caller per interval, across all servers."""
    rows = yield statement("take_turn", owner=owner, key=key, every_seconds=every_seconds)
    return bool(rows)


def count_refusal(key: str, *, owner: str = ALL_APPLICATIONS) -> Operation[int]:
    """Count the refusal of a whole set, and return the number of such refusals in a row."""
    found = yield from recall(key, owner=owner)
    now: datetime = (yield statement("read_clock"))[0].now
    is_same_stretch = found and now - datetime.fromisoformat(found["at"]) <= _LONGEST_GAP
    count: int = found["count"] + 1 if is_same_stretch else 1
    yield from remember(key, {"count": count, "at": now.isoformat()}, owner=owner)
    return count
