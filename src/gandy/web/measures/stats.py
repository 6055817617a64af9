"""Statistics of trains and manifests: REST interface and page."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, Literal, TypeAlias

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from gandy.context import Context
from gandy.desk.stats import SORTS, USUAL_WINDOWS, RunStats, StatsDesk, StatsSort
from gandy.store.stats.rollups import RANKED
from gandy.web.access.routes import Routes
from gandy.web.bodies import LARGEST_PAGE, Taken, Word, found_page, page_of
from gandy.web.dependencies import CurrentContext
from gandy.web.surroundings import Here, PageQuery

router = Routes("/api/v1/stats", tag="stats")

_SHOWN: Final = 50

Window: TypeAlias = Literal["hour", "day", "week"]
_WINDOWS: Final[dict[Window, timedelta]] = dict(zip(("hour", "day", "week"), USUAL_WINDOWS, strict=True))


class StatsQuery(BaseModel):
    """The query string of the statistics; unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid")

    train: Word | None = None
    by: Literal["train", "manifest"] = Field(
        "train", description="Manifests: for one span, by default a day."
    )
    since: Annotated[timedelta, Taken("window")] | None = Field(
        None, description="The span; by default an hour, a day and a week."
    )
    sort: StatsSort | None = Field(None, description="The largest first; by default by name, or runs.")
    limit: int = Field(100, ge=1, le=LARGEST_PAGE, description="Maximum number of manifests.")


@router.reads("", response_model=page_of(RunStats))
async def show_stats(context: CurrentContext, query: Annotated[StatsQuery, Query()]) -> object:
    """Return runs, failure rate, waits and durations of each train or manifest.

    Percentiles are at most 4.5 % from the exact ones, or 1 ms if that is more. Runs of the last seconds may
    be missing.
    """
    desk = desk_of(context)
    since = query.since
    if query.by == "train":
        windows = USUAL_WINDOWS if since is None else (since,)
        return found_page(await desk.trains(windows, train=query.train, sort=query.sort or "name"))
    window, sort = since or _WINDOWS["day"], query.sort or "runs"
    return found_page(await desk.manifests(window, train=query.train, sort=sort, limit=query.limit))


def desk_of(context: Context) -> StatsDesk:
    """Return the desk for statistics."""
    return StatsDesk(context.database, context.owners, context.registry)


pages = Routes("/stats")


class StatsPageQuery(PageQuery):
    """The window, the column to sort by, and the train."""

    window: Window | None = None
    sort: StatsSort | None = None
    train: Word | None = None


@pages.reads("")
async def show_page(
    context: CurrentContext, here: Here, query: Annotated[StatsPageQuery, Query()]
) -> Response:
    """Show the statistics of one window, sorted by any column."""
    desk, sort, name = desk_of(context), query.sort or "runs", query.window or "day"
    return here.page(
        "stats.html",
        query=query,
        sort=sort,
        window=name,
        windows={each: query.address(here.link("/stats"), window=each) for each in _WINDOWS},
        orders={key: query.address(here.link("/stats"), sort=key) for key in SORTS},
        names=sorted(train.name for train in context.registry),
        trains=await desk.trains([_WINDOWS[name]], train=query.train, sort=sort),
        manifests=await desk.manifests(_WINDOWS[name], train=query.train, sort=sort, limit=_SHOWN),
        most=_SHOWN,
        ranked=RANKED,
    )
