"""Manifests and groups as they are shown to operators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gandy.errors import ManifestNotFoundError, OneOwnerNeededError
from gandy.model.owners import OneOwner
from gandy.store.clocks import is_misplaced
from gandy.store.manifests import load_view_of, views_of
from gandy.store.owners import named_owners, owner_of_manifest
from gandy.store.reading.listings import Search, search
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gandy.model.manifest import DispatchView
    from gandy.model.owners import Owners
    from gandy.store.statements import Operation, Row, Rows


#: The limit of the count of a group's manifests.
COUNTED: Final = 10_000
#: Of the dependents of a manifest, of which fewer are shown.
_LOOKED_AT: Final = 200
_LAST_CHARACTER: Final = "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFilter:
    """Which manifests to list; `after` and `limit` select the page."""

    prefix: str = ""
    group: str | None = None
    train: str | None = None
    schedule_type: str | None = None
    is_enabled: bool | None = None
    after: str = ""
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ManifestPicture:
    """One manifest with its verdicts and dependents."""

    row: Row
    view: DispatchView
    problem: str | None  #: why its schedule cannot be read
    verdicts: Rows
    parents: Rows  #: what it depends on, with the counts of ends
    dependents: tuple[str, ...]
    is_misplaced: bool  #: a clock that was wrong set its cursor


def list_manifests(wanted: ManifestFilter, owner: str) -> Operation[Search]:
    """Read a page of manifests, by external id."""
    given = {
        "owner": owner,
        "prefix": wanted.prefix,
        "prefix_end": wanted.prefix + _LAST_CHARACTER,
        "group": wanted.group,
        "train": wanted.train,
        "schedule_type": wanted.schedule_type,
        "is_enabled": wanted.is_enabled,
        "after": wanted.after,
    }
    gather = None if wanted.group is None else "gather_manifests_of_group"
    walk = _walk(wanted)
    return (yield from search(walk, given, limit=wanted.limit, gather=gather, key="external_id"))


def list_manifests_of(wanted: ManifestFilter, owners: Owners) -> Operation[Search]:
    """Read a page of one owner's manifests; for all owners, the first manifests owner by owner."""
    if isinstance(owners, OneOwner):
        return (yield from list_manifests(wanted, owners.name))
    if wanted.after:
        raise OneOwnerNeededError("a page that goes on after an id")
    rows: Rows = []
    for owner in (yield from named_owners(owners)):
        found = yield from list_manifests(replace(wanted, limit=wanted.limit - len(rows)), owner)
        rows += found.rows
        if found.is_cut or len(rows) == wanted.limit:
            return Search(rows, None, is_cut=True)
    return Search(rows, None, is_cut=False)


def _walk(wanted: ManifestFilter) -> str:
    """Choose the most selective index: few manifests are switched off, and there are many trains."""
    if wanted.is_enabled is False:
        return "search_disabled_manifests"
    return "search_manifests" if wanted.train is None else "search_manifests_of_train"


@dataclass(frozen=True, slots=True)
class NextPlace:
    """A place in the order of next instants."""

    at: datetime
    manifest_id: int = 0


@dataclass(frozen=True, slots=True)
class NextManifests:
    """Manifests in the order of their next instants; `problems` are those of unreadable schedules."""

    views: tuple[DispatchView, ...]
    rows: Rows
    problems: Mapping[int, str]


def load_upcoming(
    owner: str, after: NextPlace, *, until: datetime, limit: int, is_deferred: bool = False
) -> Operation[NextManifests]:
    """Read manifests whose stored next instant is after a place: all, or those that may pass it over."""
    place = {"after_at": after.at, "after_id": after.manifest_id, "is_deferred": is_deferred}
    rows = yield statement("load_upcoming", owner=owner, until=until, limit=limit, **place)
    found = views_of(rows)
    return NextManifests(found.views, rows, found.unreadable)


def list_members(owner: str, group: str, *, limit: int) -> Operation[Rows]:
    """Read the first manifests of a group."""
    return (yield statement("list_members", owner=owner, name=group, limit=limit))


def picture_manifest(
    external_id: str, owner: str, *, verdicts: int = 10, dependents: int = 20
) -> Operation[ManifestPicture]:
    """Read everything that explains what a manifest does."""
    rows = yield statement("show_manifest", external_id=external_id, owner=owner)
    if not rows:
        raise ManifestNotFoundError(external_id)
    row = rows[0]
    found = yield from load_view_of(row.id, owner)
    of = {"manifest_id": row.id, "owner": owner}
    decided = yield statement("list_verdicts", limit=verdicts, **of)
    parents = yield statement("list_parents", **of)
    below = yield statement("list_dependents", limit=dependents, searched=_LOOKED_AT, **of)
    children = tuple(child.external_id for child in below)
    view, problem = found.views[0], found.unreadable.get(row.id)
    is_wrong = problem is None and (yield from is_misplaced(view, row.now))
    return ManifestPicture(row, view, problem, decided, parents, children, is_wrong)


def picture_of(external_id: str, owners: Owners) -> Operation[ManifestPicture]:
    """Read a manifest of the one owner that has it."""
    owner = yield from owner_of_manifest(owners, external_id)
    return (yield from picture_manifest(external_id, owner))


def train_of(owner: str, external_id: str) -> Operation[str | None]:
    """Read which train a manifest runs; None if there is no such manifest."""
    rows = yield statement("find_train_of_manifest", owner=owner, external_id=external_id)
    return rows[0].train if rows else None


def list_groups(
    owner: str,
    *,
    name: str | None = None,
    prefix: str = "",
    after: str = "",
    limit: int = 1_000,
) -> Operation[Rows]:
    """Read groups by name."""
    return (
        yield statement(
            "list_groups", owner=owner, name=name, prefix=prefix, after=after, limit=limit, counted=COUNTED
        )
    )


def list_groups_of(
    owners: Owners, *, prefix: str = "", after: str = "", limit: int = 1_000
) -> Operation[Rows]:
    """Read one owner's groups by name; for all owners, the first groups owner by owner."""
    if after and not isinstance(owners, OneOwner):
        raise OneOwnerNeededError("a page that goes on after a name")
    rows: Rows = []
    for owner in (yield from named_owners(owners)):
        rows += yield from list_groups(owner, prefix=prefix, after=after, limit=limit - len(rows))
        if len(rows) == limit:
            break
    return rows
