"""What comes next: REST interface and page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from gandy.desk.upcoming import DEFAULT_SPAN, ComingManifests, UpcomingFilter, UpcomingManifest, list_upcoming
from gandy.web.access.routes import Routes
from gandy.web.bodies import LARGEST_PAGE, Page, Taken, Word, found_page, shape_of
from gandy.web.dependencies import CurrentContext
from gandy.web.rendering import instant
from gandy.web.surroundings import PAGE_SIZE, Here, PageQuery

router = Routes("/api/v1/upcoming", tag="upcoming")

_HOUR: Final = timedelta(hours=1)
_SPANS: Final = {"3600": "the next hour", "86400": "the next day", "604800": "the next week"}


class UpcomingQuery(BaseModel):
    """The span, and the page."""

    model_config = ConfigDict(extra="forbid")

    within: Annotated[timedelta, Taken("within")] = Field(
        DEFAULT_SPAN, description="How far to look ahead.", json_schema_extra={"default": 86_400}
    )
    after: Word | None = Field(None, description="`next` of the previous page, or the `place` of a row.")
    limit: int = Field(50, ge=1, le=LARGEST_PAGE, description="Maximum number of rows.")


_shape: Any = shape_of(UpcomingManifest)


class UpcomingPage(Page[_shape]):
    """One page of manifests in the order of their next instants."""

    now: datetime
    until: datetime
    is_passed_cut: bool = Field(
        description="More manifests have an instant that has passed than are listed; mostly disabled ones."
    )


@router.reads("", response_model=UpcomingPage)
async def show_upcoming(context: CurrentContext, query: Annotated[UpcomingQuery, Query()]) -> object:
    """List the next instants of all manifests in order, and what will hold them back."""
    wanted = UpcomingFilter(within=query.within, after=query.after, limit=query.limit)
    found = await list_upcoming(context.database, context.owners, wanted)
    more = {"now": found.now, "until": found.until, "is_passed_cut": found.is_passed_cut}
    return {**found_page(found), **more}


pages = Routes()


class UpcomingPageQuery(PageQuery):
    """The span, and the page."""

    within: Annotated[timedelta, Taken("within")] | None = None
    after: Word | None = None


_MARK: Final = 0.6  # the width of a mark, in percent


@dataclass(frozen=True, slots=True)
class ManifestLane:
    """One manifest on the time line: the place of its last mark in percent, and the path of all."""

    manifest: UpcomingManifest
    last: float
    path: str


@pages.reads("/upcoming")
async def show_upcoming_page(
    context: CurrentContext, here: Here, query: Annotated[UpcomingPageQuery, Query()]
) -> Response:
    """Show what comes next, on a time line and as a list."""
    within = query.within or _HOUR
    wanted = UpcomingFilter(within=within, after=query.after, limit=PAGE_SIZE)
    found = await list_upcoming(context.database, context.owners, wanted)
    path, chosen = here.link("/upcoming"), f"{within.total_seconds():g}"
    return here.page(
        "upcoming.html",
        found=found,
        lanes=[_lane(each, found) for each in found],
        ticks=_ticks(found),
        chosen=chosen,
        spans=_SPANS if chosen in _SPANS else {**_SPANS, chosen: f"the next {chosen} s"},
        newest=query.address(path, within=chosen) if query.after else None,
        older=query.address(path, after=found.next, within=chosen) if found.next else None,
    )


def _lane(each: UpcomingManifest, found: ComingManifests) -> ManifestLane:
    marks = [_percent(instant, found) for instant in each.instants]
    # One path: a week of a busy schedule has hundreds of marks, and a page has many lanes.
    path = "".join(f"M{min(mark, 100 - _MARK):g} 0h{_MARK}v12h-{_MARK}z" for mark in marks)
    return ManifestLane(each, max(marks, default=0.0), path)


def _percent(instant: datetime, found: ComingManifests) -> float:
    share = (instant - found.now) / (found.until - found.now)
    return round(100 * min(max(share, 0.0), 1.0), 2)


def _ticks(found: ComingManifests) -> list[tuple[float, Markup]]:
    """Return the places and labels of the time line's axis: its quarters."""
    span = found.until - found.now
    form = "hour" if span <= DEFAULT_SPAN else "day"
    return [(25.0 * part, instant(found.now + part * span / 4, form)) for part in range(4)]
