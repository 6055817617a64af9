"""A parent that is removed while a dependent is added: the later of both is refused by name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gandy.errors import ManifestInUseError, ParentNotFoundError
from gandy.model.schedule import Dependent, Manual
from gandy.store.queueing import remove_manifest
from gandy.store.seeding import add_manifest
from tests.support.waiting import eventually
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from gandy.store.statements import Operation
    from tests.support.world import World

WAITING = "SELECT count(*) AS count FROM pg_locks WHERE NOT granted"


async def beside(world: World, first: Operation[object], second: Operation[object]) -> None:
    """Run the second operation while the transaction of the first is open."""
    async with world.database.transaction() as transaction:
        await transaction.run(first)
        later = asyncio.create_task(world.database.run(second))
        if world.url.startswith("postgres"):
            await eventually(lambda: _is_waiting(world), "the second operation waits")
    await later


async def _is_waiting(world: World) -> bool:
    return bool(world.rows(WAITING)[0]["count"])


@pytest.fixture
async def parent(world: World) -> str:
    await world.database.run(add_manifest(OWNER, manifest("parent", schedule=Manual())))
    return "parent"


async def test_a_parent_whose_dependent_is_added_meanwhile_stays(world: World, parent: str) -> None:
    child = manifest("child", schedule=Dependent(parent))

    with pytest.raises(ManifestInUseError, match="'child' depends on it"):
        await beside(world, add_manifest(OWNER, child), remove_manifest(parent, owner=OWNER))


async def test_a_dependent_whose_parent_is_removed_meanwhile_is_refused(world: World, parent: str) -> None:
    child = manifest("child", schedule=Dependent(parent))

    with pytest.raises(ParentNotFoundError, match="parent"):
        await beside(world, remove_manifest(parent, owner=OWNER), add_manifest(OWNER, child))
