"""Three parents and a dependent of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gandy.model.run import TrainState
from gandy.model.schedule import Dependent, Manual
from gandy.store.queueing import trigger
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from gandy.model.manifest import ManifestDeclaration
    from gandy.model.schedule import Schedule
    from tests.support.world import World

PARENTS = ("a", "b", "c")
PASSED = Dependent("a", is_output_passed=True)


def family(*parents: str, child: Schedule | None = None, **options: object) -> list[ManifestDeclaration]:
    above = [manifest(name, schedule=Manual(), train=name.upper(), is_retried=False) for name in PARENTS]
    schedule = child or Dependent(*(parents or PARENTS))
    return [*above, manifest("merge", schedule=schedule, train="Merge", group="below", **options)]


async def end(world: World, name: str, state: TrainState = TrainState.COMPLETED, output: str = "1") -> None:
    await world.database.run(trigger(name, owner=OWNER))
    output_json = output if state is TrainState.COMPLETED else None
    await world.finish(*await world.claim(name.upper()), state=state, output_json=output_json)


async def queued(world: World) -> int:
    """Run a cycle, and the dependent if it was queued; return how often."""
    await world.cycle()
    runs = await world.claim("Merge")
    await world.finish(*runs)
    return len(runs)


def passing() -> list[ManifestDeclaration]:
    return family(child=PASSED, input_json=None)


async def inputs(world: World) -> list[object]:
    """Run a cycle, and the dependent; return the inputs of its runs."""
    await world.cycle()
    runs = await world.claim("Merge")
    await world.finish(*runs)
    return [json.loads(run.input_json or "null") for run in runs]
