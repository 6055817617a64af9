"""When a manifest will run, instant by instant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 the faces read it at run time
from typing import TYPE_CHECKING

from gandy.errors import OverrideError
from gandy.rules.preview import preview
from gandy.rules.zones import wall_of
from gandy.store.reading.views import picture_of

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from gandy.rules.preview import Upcoming
    from gandy.store.drivers.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedInstant:
    """One instant to come, on the wall clock of the manifest's zone and in UTC."""

    due_at: datetime
    local: str  #: with the zone's offset
    scheduled_at: datetime | None  #: with jitter; None where it is excluded
    note: str


async def preview_manifest(
    database: Database, external_id: str, count: int, *, owners: Owners
) -> tuple[PreviewedInstant, ...]:
    """List the next instants, decided by the same rules as the cycle's own."""
    picture = await database.read(picture_of(external_id, owners))
    if picture.problem is not None:
        raise OverrideError(external_id, picture.problem)
    upcoming = preview(picture.view, picture.row.now, count)
    return tuple(_shown(each, picture.view.timezone) for each in upcoming)


def _shown(upcoming: Upcoming, timezone: str) -> PreviewedInstant:
    notes = []
    if upcoming.is_excluded:
        notes.append("excluded")
    if upcoming.is_offset_changed:
        notes.append("the clocks have changed")
    return PreviewedInstant(
        due_at=upcoming.due_at,
        local=wall_of(upcoming.due_at, timezone).isoformat(),
        scheduled_at=None if upcoming.is_excluded else upcoming.scheduled_at,
        note=", ".join(notes),
    )
