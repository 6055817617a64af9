"""The service that keeps tables bounded, as a part of an application."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from gandy.app.upkeep import ticked, upkeep_parts
from gandy.upkeep.service import LifecycleParts, LifecycleService

if TYPE_CHECKING:
    from gandy.app.opening import OpenApp
    from gandy.loops.wakeups import Wakeups


def make_lifecycle(app: OpenApp, _: Wakeups) -> LifecycleService:
    """Make the service that keeps tables bounded, Gandy's own and the application's."""
    return _service(app)


async def tick_lifecycle(app: OpenApp, *, is_overruled: bool = False) -> dict[str, object]:
    """Run exactly one cycle of it, and say what was removed."""
    tick = await _service(app).tick(is_overruled=is_overruled)
    return {**ticked(tick.own), "contracts": [asdict(report) for report in tick.contracts]}


def _service(app: OpenApp) -> LifecycleService:
    parts = LifecycleParts(upkeep=upkeep_parts(app), contracts=app.contracts, clock=app.clock)
    return LifecycleService(parts)
