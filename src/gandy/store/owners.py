"""The owners of a database, and which one of them a name belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors import (
    GroupAmbiguousError,
    GroupNotFoundError,
    ManifestAmbiguousError,
    ManifestNotFoundError,
    OneOwnerNeededError,
)
from gandy.model.owners import OneOwner
from gandy.store.statements import statement

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from gandy.store.statements import Operation


def list_owners() -> Operation[tuple[str, ...]]:
    """Name the applications that the database holds something of."""
    return tuple(row.owner for row in (yield statement("list_owners")))


def single_owner(owners: Owners) -> str:
    """Name the one owner, for what cannot be done for all at once."""
    if isinstance(owners, OneOwner):
        return owners.name
    raise OneOwnerNeededError("this")


def named_owners(owners: Owners) -> Operation[tuple[str, ...]]:
    """Name the owners one by one, for what is listed owner after owner."""
    if isinstance(owners, OneOwner):
        return (owners.name,)
    return (yield from list_owners())


def owner_of_manifest(owners: Owners, external_id: str) -> Operation[str]:
    """Say whose manifest is meant; an id that several owners have is refused, and they are named."""
    if isinstance(owners, OneOwner):
        return owners.name
    found = yield from _holders("find_owners_of_manifest", external_id)
    if not found:
        raise ManifestNotFoundError(external_id)
    if len(found) > 1:
        raise ManifestAmbiguousError(external_id, found)
    return found[0]


def owner_of_group(owners: Owners, name: str) -> Operation[str]:
    """Say whose group is meant; a name that several owners have is refused, and they are named."""
    if isinstance(owners, OneOwner):
        return owners.name
    found = yield from _holders("find_owners_of_group", name)
    if not found:
        raise GroupNotFoundError(str(owners), name)
    if len(found) > 1:
        raise GroupAmbiguousError(name, found)
    return found[0]


def narrowed_to_manifest(owners: Owners, external_id: str | None) -> Operation[Owners]:
    """Narrow a listing that names a manifest to the one owner that has it; without a manifest it stays."""
    if external_id is None or isinstance(owners, OneOwner):
        return owners
    return OneOwner((yield from owner_of_manifest(owners, external_id)))


def _holders(name: str, wanted: str) -> Operation[tuple[str, ...]]:
    owners = yield from list_owners()
    rows = yield statement(name, owners=list(owners), name=wanted)
    return tuple(row.owner for row in rows)
