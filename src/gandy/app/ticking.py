"""One cycle of a service, because somebody asks for it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.app.lifecycle import tick_lifecycle
from gandy.app.running import make_dispatcher, make_manifest_manager
from gandy.app.upkeep import UPKEEP_SERVICES, tick_upkeep
from gandy.errors import UnknownServiceError
from gandy.loops.wakeups import Wakeups
from gandy.upkeep.service import LIFECYCLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from gandy.app.opening import OpenApp

Ticked: TypeAlias = "dict[str, object]"
#: Whether a person vouches for the clock comes second.
Tick: TypeAlias = "Callable[[OpenApp, bool], Awaitable[Ticked]]"


async def tick(app: OpenApp, service: str, *, is_clock_right: bool = False) -> Ticked:
    """Seed as the service would, run exactly one cycle and say what it did."""
    if service not in TICKS:
        raise UnknownServiceError(service, known=tuple(TICKS))
    return await TICKS[service](app, is_clock_right)


async def _tick_manifest_manager(app: OpenApp, is_clock_right: bool) -> Ticked:  # noqa: FBT001 one of TICKS
    if is_clock_right:
        await app.trust.examine(is_overruled=True)
    manager = make_manifest_manager(app, Wakeups(app.database, app.name))
    seeded = await manager.seed()
    result = await manager.tick()
    if result is None:
        return {"is_leader": False, "seeded": asdict(seeded)}
    return {
        "is_leader": True,
        "seeded": asdict(seeded),
        **result.counts,
        "lateness": result.lateness,
        "next_look": result.next_look,
        "dead_letters": [asdict(letter) for letter in result.parked],
    }


async def _tick_dispatcher(app: OpenApp, _: bool) -> Ticked:  # noqa: FBT001 one of TICKS
    result = await make_dispatcher(app, Wakeups(app.database, app.name)).tick()
    return {**result.counts, "runs": [run.id for run in result.dispatched]}


def _tick_of(name: str) -> Tick:
    return lambda app, is_clock_right: tick_upkeep(app, name, is_overruled=is_clock_right)


TICKS: Final[Mapping[str, Tick]] = {
    "manifest-manager": _tick_manifest_manager,
    "dispatcher": _tick_dispatcher,
    **{name: _tick_of(name) for name in UPKEEP_SERVICES},
    LIFECYCLE: lambda app, is_clock_right: tick_lifecycle(app, is_overruled=is_clock_right),
}
