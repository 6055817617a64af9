"""Seeding: write an application's declarations as manifests; keep overrides and cursors."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from gandy.errors import (
    DatabaseFaultError,
    GandyError,
    ManifestDeclaredError,
    ParentNotFoundError,
    RowConflictError,
    SetRefusedError,
)
from gandy.model.schedule import edges_of
from gandy.rules.schedules import refuse_cycle
from gandy.store.clocks import put_right, read_mark
from gandy.store.declared import Change, RowMaker, change_edges, insert_edges
from gandy.store.manifests import load_view_of
from gandy.store.overriding import ensure_groups, seed_groups
from gandy.store.statements import BisectedResult, batch, statement, write_bisecting
from gandy.store.waiting import promote_and_announce

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gandy.model.manifest import Declarations, ManifestDeclaration
    from gandy.store.drivers.database import Database, Transaction
    from gandy.store.statements import Operation, RefusedItem, Row

_log = logging.getLogger("gandy.seeding")

ManifestOrigin: TypeAlias = Literal["declared", "runtime"]

_CHUNK: Final = 5_000
_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True)
class RefusedDeclaration:
    """A declared manifest or batch, or the groups, that could not be seeded."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What a seeding changed."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    orphaned: int = 0
    refused: tuple[RefusedDeclaration, ...] = ()

    def plus(self, other: SeedResult) -> SeedResult:
        """Add up two parts of one seeding."""
        return SeedResult(
            self.created + other.created,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            self.orphaned + other.orphaned,
            self.refused + other.refused,
        )


async def seed_bisecting(database: Database, declarations: Declarations) -> SeedResult:
    """Seed the declarations; report each refused manifest or batch, and seed the rest.

    SetRefusedError: the database refused several units, all with one error: no single unit can be blamed.
    """
    try:
        return await database.run(seed(declarations))
    except DatabaseFaultError:
        raise
    except Exception as error:  # noqa: BLE001 any error may concern a single declaration
        _log.warning("seeding failed as a whole, now one by one: %s", error)
    async with database.transaction() as transaction:
        return await _seed_apart(transaction, declarations)


async def _seed_apart(transaction: Transaction, declarations: Declarations) -> SeedResult:
    await transaction.run(_lock(declarations.owner))
    refused = await _seed_groups_apart(transaction, declarations)

    async def write(units: Sequence[_Unit]) -> SeedResult:
        manifests = [each for unit in units for each in unit.manifests]
        async with transaction.savepoint():
            return await transaction.run(_seed_some(declarations.owner, manifests))

    units = _units(declarations.manifests)
    result = await write_bisecting(units, write, charges_all=True) if units else BisectedResult([], [])
    _refuse_alike(units, result.refused)
    refused += [RefusedDeclaration(each.item.name, str(each.error)) for each in result.refused]
    ended = await transaction.run(_finish_seeding(declarations, result.written))
    return ended.plus(SeedResult(refused=tuple(refused)))


async def _seed_groups_apart(
    transaction: Transaction, declarations: Declarations
) -> list[RefusedDeclaration]:
    """Seed the groups' own settings; seeding manifests creates the groups that they name in any case."""
    try:
        async with transaction.savepoint():
            await transaction.run(seed_groups(declarations))
    except DatabaseFaultError:
        raise
    except Exception as error:  # noqa: BLE001 the manifests are seeded all the same
        names = ", ".join(sorted(group.name for group in declarations.groups)) or "default"
        return [RefusedDeclaration(f"groups {names}", str(error))]
    return []


class _Unit(NamedTuple):
    """Declarations that are seeded all or nothing: a manifest, or the batch of one schedule_many."""

    name: str
    manifests: Sequence[ManifestDeclaration]


def _units(manifests: Sequence[ManifestDeclaration]) -> list[_Unit]:
    """Group declarations into units, parents first; dependency cycles come last, to be refused."""
    waves = list(parents_first(manifests))
    ordered = {each.external_id: each for wave in waves for each in wave}
    units: dict[tuple[str, str], list[ManifestDeclaration]] = {}
    for each in (*ordered.values(), *(each for each in manifests if each.external_id not in ordered)):
        key = ("manifest", each.external_id) if each.batch is None else ("batch", each.batch)
        units.setdefault(key, []).append(each)
    return [_Unit(f"{kind} {name}", members) for (kind, name), members in units.items()]


def _refuse_alike(units: Sequence[_Unit], refused: Sequence[RefusedItem[_Unit]]) -> None:
    """Raise if the database refused several units, all with one error: no single unit can be blamed."""
    if len(refused) < len(units) or len(units) < _SEVERAL:
        return
    errors = [each.error for each in refused]
    is_certain = any(
        isinstance(error, GandyError) and not isinstance(error, RowConflictError) for error in errors
    )
    if not is_certain and len({(type(error), getattr(error, "constraint", "")) for error in errors}) == 1:
        raise SetRefusedError(len(units), str(errors[0]))


def _lock(owner: str) -> Operation[None]:
    yield statement("lock_seeding", owner=owner)


def _seed_some(owner: str, manifests: Sequence[ManifestDeclaration]) -> Operation[SeedResult]:
    """Seed some of the declarations."""
    yield from _refuse_bad_parents(owner, manifests)
    groups = yield from ensure_groups(owner, [each.group for each in manifests])
    now = (yield statement("read_clock"))[0].now
    return (yield from _seed_waves(owner, manifests, RowMaker(now, groups)))


def _finish_seeding(declarations: Declarations, parts: Iterable[SeedResult]) -> Operation[SeedResult]:
    """Mark orphans, add up the results, and notify the managers if anything changed."""
    result = SeedResult(orphaned=(yield from _mark_orphans(declarations)))
    for part in parts:
        result = result.plus(part)
    if result.created or result.updated or result.orphaned:
        yield statement("notify", payload=f"manager:{declarations.owner}")
    return result


def seed(declarations: Declarations) -> Operation[SeedResult]:
    """Seed the declarations, all or nothing; a manifest that is no longer declared is marked, not removed."""
    owner = declarations.owner
    yield from _lock(owner)
    yield from _refuse_bad_parents(owner, declarations.manifests)
    groups = yield from seed_groups(declarations)
    now = (yield statement("read_clock"))[0].now
    seeded = yield from _seed_waves(owner, declarations.manifests, RowMaker(now, groups))
    return (yield from _finish_seeding(declarations, [seeded]))


def _seed_waves(
    owner: str, manifests: Sequence[ManifestDeclaration], maker: RowMaker
) -> Operation[SeedResult]:
    result = SeedResult()
    for wave in parents_first(manifests):
        for chunk in _chunks(wave):
            result = result.plus((yield from _seed_chunk(owner, chunk, maker, origin="declared")))
    return result


def add_manifest(owner: str, declaration: ManifestDeclaration) -> Operation[SeedResult]:
    """Create or change a run-time manifest, which seeding never marks as an orphan."""
    yield statement("lock_seeding", owner=owner)
    yield from _refuse_bad_parents(owner, [declaration])
    groups = yield from ensure_groups(owner, [declaration.group])
    now = (yield statement("read_clock"))[0].now
    result = yield from _seed_chunk(owner, [declaration], RowMaker(now, groups), origin="runtime")
    yield statement("notify", payload=f"manager:{owner}")
    return result


def parents_first(manifests: Iterable[ManifestDeclaration]) -> Iterator[list[ManifestDeclaration]]:
    """Order manifests in waves, so that each finds its parent already written."""
    waiting: dict[str, list[ManifestDeclaration]] = {}
    known = {declaration.external_id for declaration in manifests}
    missing: dict[str, int] = {}  # the number of parents that are not written yet, by dependent
    wave: list[ManifestDeclaration] = []
    for declaration in manifests:
        above = [edge.parent for edge in edges_of(declaration.schedule) if edge.parent in known]
        missing[declaration.external_id] = len(above)
        for parent in above:
            waiting.setdefault(parent, []).append(declaration)
        if not above:
            wave.append(declaration)
    while wave:
        yield wave
        wave = list(_freed(wave, waiting, missing)) if waiting else []


def _freed(
    wave: Iterable[ManifestDeclaration],
    waiting: Mapping[str, Iterable[ManifestDeclaration]],
    missing: dict[str, int],
) -> Iterator[ManifestDeclaration]:
    """Return the dependents whose last missing parent is in this wave."""
    for child in (child for each in wave for child in waiting.get(each.external_id, ())):
        missing[child.external_id] -= 1
        if not missing[child.external_id]:
            yield child


def _refuse_bad_parents(owner: str, manifests: Iterable[ManifestDeclaration]) -> Operation[None]:
    """Refuse unknown parents and dependency cycles."""
    parents = {
        declaration.external_id: [edge.parent for edge in edges]
        for declaration in manifests
        if (edges := edges_of(declaration.schedule))
    }
    if not parents:
        return
    declared = {declaration.external_id for declaration in manifests}
    outside = {parent for several in parents.values() for parent in several} - declared
    chain = (yield statement("load_ancestors", external_ids=sorted(outside), owner=owner)) if outside else []
    stored: dict[str, list[str]] = {row.external_id: [] for row in chain}
    for row in chain:
        if row.parent is not None:
            stored[row.external_id].append(row.parent)
    for external_id, several in parents.items():
        for parent in several:
            if parent not in declared and parent not in stored:
                raise ParentNotFoundError(external_id, parent)
    above = {child: several for child, several in stored.items() if child not in declared}
    refuse_cycle({**above, **parents}, parents)


def _seed_chunk(
    owner: str, chunk: Sequence[ManifestDeclaration], maker: RowMaker, *, origin: ManifestOrigin
) -> Operation[SeedResult]:
    found = yield statement("find_declared", external_ids=[each.external_id for each in chunk], owner=owner)
    stored = {row.external_id: row for row in found}
    new = [each for each in chunk if each.external_id not in stored]
    yield maker.insertion(new, owner=owner, origin=origin)
    yield from insert_edges(owner, ((each.external_id, each.schedule) for each in new))
    _refuse_declared(origin, stored)
    changed = [
        (each.external_id, maker.text_of(each))
        for each in chunk
        if (row := stored.get(each.external_id)) is not None
        and (not maker.is_stored(each, row.declared) or row.is_orphaned or row.origin != origin)
    ]
    yield from _update(owner, changed, maker, origin=origin)
    return SeedResult(len(new), len(changed), len(stored) - len(changed))


def _refuse_declared(origin: ManifestOrigin, stored: Mapping[str, Row]) -> None:
    for row in stored.values():
        if origin == "runtime" and row.origin == "declared" and not row.is_orphaned:
            raise ManifestDeclaredError(row.external_id)


def _update(
    owner: str, changed: Sequence[tuple[str, str]], maker: RowMaker, *, origin: ManifestOrigin
) -> Operation[None]:
    if not changed:
        return
    texts = dict(changed)
    yield from _put_right(owner, texts)
    stored = yield statement("lock_declared", external_ids=list(texts), owner=owner)
    changes = [(row, Change(texts[row.external_id], row.overrides, origin)) for row in stored]
    rows = [maker.changed_row(row, change) for row, change in changes]
    updated = yield batch("update_manifests", rows, owner=owner)
    ids = [row.id for row in updated]
    yield from change_edges(owner, changes)
    yield statement("retrain_entries", ids=ids, owner=owner)
    yield statement("regate_entries", ids=ids, owner=owner)
    yield from promote_and_announce(ids)  # entries whose manifest is declared or switched on again


def _put_right(owner: str, external_ids: Iterable[str]) -> Operation[None]:
    """Put right what a clock ahead left, before a changed schedule moves cursors; usually nothing."""
    mark = yield from read_mark()
    if not any(each.until > mark.now for each in mark.spans):
        return
    for row in (yield statement("lock_declared", external_ids=list(external_ids), owner=owner)):
        yield from put_right((yield from load_view_of(row.id, owner)).views[0], mark.now)


def _mark_orphans(declarations: Declarations) -> Operation[int]:
    """Mark orphans; without any declared manifest, only those of batches that may be emptied."""
    filled = {declaration.batch for declaration in declarations.manifests}
    empty = [each for each in declarations.batches if each.name not in filled]
    rows = yield statement(
        "mark_orphans",
        owner=declarations.owner,
        is_whole=bool(declarations.manifests),
        emptied=[each.name for each in empty if each.prune_empty],
        spared=[each.name for each in empty if not each.prune_empty],
        external_ids=[declaration.external_id for declaration in declarations.manifests],
    )
    return len(rows)


def _chunks(items: Sequence[ManifestDeclaration]) -> Iterator[Sequence[ManifestDeclaration]]:
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))
