"""Seeding: what an application declares becomes manifests, without undoing what operators and runs did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.errors import ManifestDeclaredError, ManifestOwnedElsewhereError, ParentNotFoundError
from gandy.rules.dependencies import refuse_cycle
from gandy.store.declared import parent_of
from gandy.store.groups import ensure_groups, seed_groups
from gandy.store.manifest_rows import Change, RowMaker
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gandy.model.declaration import Declarations, ManifestDeclaration
    from gandy.store.statements import Operation, Row

ManifestOrigin: TypeAlias = Literal["declared", "runtime"]

_CHUNK: Final = 5_000


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What a seeding changed."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    orphaned: int = 0

    def plus(self, other: SeedResult) -> SeedResult:
        """Add up two parts of one seeding."""
        return SeedResult(
            self.created + other.created,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            self.orphaned + other.orphaned,
        )


def seed(declarations: Declarations) -> Operation[SeedResult]:
    """Write what is declared, all or nothing; what is no longer declared is marked, not removed."""
    owner = declarations.owner
    yield statement("lock_seeding", owner=owner)
    yield from _refuse_bad_parents(declarations.manifests)
    groups = yield from seed_groups(declarations)
    now = (yield statement("read_clock"))[0].now
    maker = RowMaker(now, groups)
    result = SeedResult()
    for wave in parents_first(declarations.manifests):
        for chunk in _chunks(wave):
            result = result.plus((yield from _seed_chunk(owner, chunk, maker, origin="declared")))
    result = result.plus(SeedResult(orphaned=(yield from _mark_orphans(declarations))))
    if result.created or result.updated or result.orphaned:
        yield statement("notify", payload=f"manager:{owner}")
    return result


def add_manifest(owner: str, declaration: ManifestDeclaration) -> Operation[SeedResult]:
    """Make a manifest at run time, or change one that was made so; no deploy prunes it."""
    yield statement("lock_seeding", owner=owner)
    yield from _refuse_bad_parents([declaration])
    groups = yield from ensure_groups(owner, [declaration.group])
    now = (yield statement("read_clock"))[0].now
    result = yield from _seed_chunk(owner, [declaration], RowMaker(now, groups), origin="runtime")
    yield statement("notify", payload=f"manager:{owner}")
    return result


def parents_first(manifests: Iterable[ManifestDeclaration]) -> Iterator[list[ManifestDeclaration]]:
    """Order manifests in waves, so that each finds its parent already written."""
    waiting: dict[str, list[ManifestDeclaration]] = {}
    known = {declaration.external_id for declaration in manifests}
    wave: list[ManifestDeclaration] = []
    for declaration in manifests:
        parent = parent_of(declaration.schedule)
        if parent in known:
            waiting.setdefault(str(parent), []).append(declaration)
        else:
            wave.append(declaration)
    while wave:
        yield wave
        wave = [child for each in wave for child in waiting.get(each.external_id, ())] if waiting else []


def _refuse_bad_parents(manifests: Iterable[ManifestDeclaration]) -> Operation[None]:
    """Refuse parents that are nowhere, and dependents that wait for themselves."""
    parents = {
        declaration.external_id: parent
        for declaration in manifests
        if (parent := parent_of(declaration.schedule)) is not None
    }
    if not parents:
        return
    declared = {declaration.external_id for declaration in manifests}
    outside = {parent for parent in parents.values() if parent not in declared}
    chain = (yield statement("load_ancestors", external_ids=sorted(outside))) if outside else []
    stored = {row.external_id: row.parent for row in chain}
    for external_id, parent in parents.items():
        if parent not in declared and parent not in stored:
            raise ParentNotFoundError(external_id, parent)
    above = {child: parent for child, parent in stored.items() if parent and child not in declared}
    refuse_cycle({**above, **parents}, parents)


def _seed_chunk(
    owner: str, chunk: Sequence[ManifestDeclaration], maker: RowMaker, *, origin: ManifestOrigin
) -> Operation[SeedResult]:
    found = yield statement("find_declared", external_ids=[each.external_id for each in chunk])
    stored = {row.external_id: row for row in found}
    new = [each for each in chunk if each.external_id not in stored]
    rows = [maker.new_row(each) for each in new]
    made = {row.external_id for row in (yield batch("insert_manifests", rows, owner=owner, origin=origin))}
    if len(made) < len(new):  # another application wrote one of these at this very moment
        late = [each.external_id for each in new if each.external_id not in made]
        stored |= {row.external_id: row for row in (yield statement("find_declared", external_ids=late))}
    _refuse_foreign(owner, origin, stored)
    changed = [
        (each.external_id, text)
        for each in chunk
        if each.external_id in stored
        and _is_changed(stored[each.external_id], text := maker.text_of(each), origin)
    ]
    yield from _update(changed, maker, origin)
    return SeedResult(len(made), len(changed), len(chunk) - len(made) - len(changed))


def _refuse_foreign(owner: str, origin: ManifestOrigin, stored: Mapping[str, Row]) -> None:
    for row in stored.values():
        if row.owner != owner:
            raise ManifestOwnedElsewhereError(row.external_id, row.owner)
        if origin == "runtime" and row.origin == "declared" and not row.is_orphaned:
            raise ManifestDeclaredError(row.external_id)


def _is_changed(stored: Row, text: str, origin: ManifestOrigin) -> bool:
    return bool(stored.declared != text or stored.is_orphaned or stored.origin != origin)


def _update(changed: Sequence[tuple[str, str]], maker: RowMaker, origin: ManifestOrigin) -> Operation[None]:
    if not changed:
        return
    texts = dict(changed)
    stored = yield statement("lock_declared", external_ids=list(texts))
    rows = [maker.changed_row(row, Change(texts[row.external_id], row.overrides, origin)) for row in stored]
    updated = yield batch("update_manifests", rows)
    yield statement("regate_entries", ids=[row.id for row in updated])


def _mark_orphans(declarations: Declarations) -> Operation[int]:
    """Mark what is no longer declared; who declares nothing prunes nothing but a batch it names."""
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
