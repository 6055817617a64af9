"""The services that clean up Gandy's own tables, made for an application."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from gandy.upkeep.service import (
    DEAD_LETTER_CLEANUP,
    METADATA_CLEANUP,
    UpkeepParts,
    dead_letter_cleanup,
    metadata_cleanup,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gandy.app.opening import OpenApp
    from gandy.loops.wakeups import Wakeups
    from gandy.upkeep.pruning import UpkeepResult
    from gandy.upkeep.service import UpkeepService

UPKEEP_SERVICES: Final[Mapping[str, Callable[[UpkeepParts], UpkeepService]]] = {
    METADATA_CLEANUP: metadata_cleanup,
    DEAD_LETTER_CLEANUP: dead_letter_cleanup,
}


def make_upkeep(name: str) -> Callable[[OpenApp, Wakeups], UpkeepService]:
    """Say how one of these services is made for an application."""

    def make(app: OpenApp, _: Wakeups) -> UpkeepService:
        return UPKEEP_SERVICES[name](upkeep_parts(app))

    return make


async def tick_upkeep(app: OpenApp, name: str, *, is_overruled: bool = False) -> dict[str, object]:
    """Run exactly one cycle of one of these services, and say what it removed."""
    return ticked(await UPKEEP_SERVICES[name](upkeep_parts(app)).tick(is_overruled=is_overruled))


def ticked(result: UpkeepResult) -> dict[str, object]:
    """Say what one cycle removed, as JSON will have it."""
    return {
        "deleted": result.deleted,
        "rows": dict(result.rows),
        "days_made": result.days_made,
        "days_dropped": result.days_dropped,
        "set_aside": result.set_aside,
        "passed_over": result.passed_over,
        "failed": [asdict(bound) for bound in result.failed],
    }


def upkeep_parts(app: OpenApp) -> UpkeepParts:
    """Give what these services need of an application."""
    return UpkeepParts(
        owner=app.name, database=app.database, settings=app.settings, events=app.events, trust=app.trust
    )
