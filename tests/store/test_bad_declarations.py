"""Seeding what an application declares: a declaration that is refused is named, and the rest is seeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.errors import SetRefusedError
from gandy.model.manifest import BatchDeclaration, Declarations, GroupDeclaration
from gandy.model.schedule import Dependent
from gandy.store.seeding import seed_bisecting
from tests.support.poison import heal, poison
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from gandy.model.manifest import ManifestDeclaration
    from gandy.store.seeding import SeedResult
    from tests.support.world import World

DECLARED = (
    manifest("alone"),
    manifest("parent"),
    manifest("child", schedule=Dependent("parent")),
    manifest("grandchild", schedule=Dependent("child")),
    *(manifest(f"sync-{name}", batch="sync", group="sync") for name in ("a", "b", "c")),
)
#: What is refused by the database, and what is left out because of it.
CASES = {
    "alone": {"manifest alone"},
    "sync-b": {"batch sync"},
    "grandchild": {"manifest grandchild"},
    "child": {"manifest child", "manifest grandchild"},
    "parent": {"manifest parent", "manifest child", "manifest grandchild"},
}


async def seed_of(world: World, *manifests: ManifestDeclaration, **options: object) -> SeedResult:
    declared = Declarations(owner=OWNER, manifests=manifests, **options)  # type: ignore[arg-type]
    return await seed_bisecting(world.database, declared)


def seeded(world: World) -> set[str]:
    return {row["external_id"] for row in world.rows("SELECT external_id FROM manifest")}


@pytest.mark.parametrize("bad", CASES)
async def test_what_is_refused_is_named_and_the_rest_is_seeded(world: World, bad: str) -> None:
    poison(world, "manifest", f"NEW.external_id = '{bad}'")

    result = await seed_of(world, *DECLARED, batches=(BatchDeclaration(name="sync"),))

    assert {refused.name for refused in result.refused} == CASES[bad]
    units = {"batch sync": {"sync-a", "sync-b", "sync-c"}}
    missing = set().union(*(units.get(name, {name.split()[-1]}) for name in CASES[bad]))
    assert seeded(world) == {each.external_id for each in DECLARED} - missing
    assert result.created == len(DECLARED) - len(missing)
    heal(world, "manifest")
    assert (await seed_of(world, *DECLARED, batches=(BatchDeclaration(name="sync"),))).created == len(missing)


async def test_what_was_seeded_before_and_is_refused_now_is_not_taken_for_removed(world: World) -> None:
    await seed_of(world, manifest("a"), manifest("b"), manifest("gone"))
    poison(world, "manifest", "NEW.external_id = 'b' AND NEW.max_retries = 9", event="UPDATE")

    result = await seed_of(world, manifest("a", max_retries=9), manifest("b", max_retries=9))

    assert ([each.name for each in result.refused], result.updated, result.orphaned) == (["manifest b"], 1, 1)
    assert world.manifest("b")["orphaned_at"] is None


@pytest.mark.parametrize("count", [1, 3])
async def test_those_that_follow_another_applications_are_named_however_many_they_are(
    world: World, count: int
) -> None:
    await world.seed(*(manifest(f"theirs-{number}") for number in range(count)), owner="warehouse")
    followers = [
        manifest(f"child-{number}", schedule=Dependent(f"theirs-{number}")) for number in range(count)
    ]

    result = await seed_of(world, *followers, manifest("mine"))
    only = await seed_of(world, *followers)

    assert len(result.refused) == len(only.refused) == count
    assert all("theirs-" in each.problem for each in result.refused)
    assert "mine" in seeded(world)


async def test_manifests_that_wait_for_each_other_or_for_nothing_are_named(world: World) -> None:
    result = await seed_of(
        world,
        manifest("good"),
        manifest("hen", schedule=Dependent("egg")),
        manifest("egg", schedule=Dependent("hen")),
        manifest("lost", schedule=Dependent("nowhere")),
    )

    assert {each.name for each in result.refused} == {"manifest hen", "manifest egg", "manifest lost"}
    assert seeded(world) == {"good"}


async def test_a_group_that_is_refused_keeps_its_manifests(world: World) -> None:
    await seed_of(
        world, manifest("a", group="etl"), groups=(GroupDeclaration(name="etl", max_active_jobs=1),)
    )
    poison(world, "manifest_group", "NEW.max_active_jobs = 4", event="UPDATE")

    result = await seed_of(
        world,
        manifest("a", group="etl"),
        manifest("b"),
        groups=(GroupDeclaration(name="etl", max_active_jobs=4),),
    )

    assert [each.name for each in result.refused] == ["groups etl"]
    assert seeded(world) == {"a", "b"}


async def test_what_the_database_refuses_alike_is_charged_to_none(world: World) -> None:
    poison(world, "manifest", "NEW.external_id LIKE 'm-_'")

    with pytest.raises(SetRefusedError):
        await seed_of(world, manifest("m-1"), manifest("m-2"))

    assert seeded(world) == set()
