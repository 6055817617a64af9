"""The audit trail: REST interface and page."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from gandy.desk.audit import AuditEntry, read_trail
from gandy.store.audit import DeedFilter
from gandy.web.access.routes import Routes
from gandy.web.bodies import Paged, Taken, found_page, page_of
from gandy.web.dependencies import CurrentContext
from gandy.web.surroundings import PAGE_SIZE, Here, PageQuery

router = Routes("/api/v1/audit", tag="audit")

_PERIODS = {"3600": "the last hour", "86400": "the last day", "604800": "the last week"}


class DeedQuery(Paged):
    """Filter of the audit trail."""

    by: Annotated[str, Taken("by")] | None = Field(None, description="The operator.")
    on: Annotated[str, Taken("subject")] | None = Field(
        None, description="The id of a job, dead letter, manifest, group or worker."
    )
    since: Annotated[timedelta, Taken("since")] | None = Field(
        None, description="Only changes of this period, until now."
    )


@router.reads("", response_model=page_of(AuditEntry))
async def list_audit(context: CurrentContext, query: Annotated[DeedQuery, Query()]) -> object:
    """List changes by operators, the newest first."""
    wanted = DeedFilter(
        by=query.by, subject=query.on, since=query.since, before=query.before, limit=query.limit
    )
    return found_page(await read_trail(context.database, context.owners, wanted))


pages = Routes()


class DeedPageQuery(PageQuery):
    """Filter of the audit trail."""

    by: Annotated[str, Taken("by")] | None = None
    on: Annotated[str, Taken("subject")] | None = None
    since: Annotated[timedelta, Taken("since")] | None = None


@pages.reads("/audit")
async def show_audit(
    context: CurrentContext, here: Here, query: Annotated[DeedPageQuery, Query()]
) -> Response:
    """Show the audit trail."""
    wanted = DeedFilter(
        by=query.by, subject=query.on, since=query.since, before=query.before, limit=PAGE_SIZE
    )
    entries = await read_trail(context.database, context.owners, wanted)
    path = here.link("/audit")
    period = None if query.since is None else f"{query.since.total_seconds():g}"
    kept = {} if period is None else {"since": period}
    return here.page(
        "audit.html",
        entries=entries,
        query=query,
        period=period,
        periods=_PERIODS if period in {None, *_PERIODS} else {**_PERIODS, period: f"{period} s"},
        is_filtered=query.is_filtered,
        newest=query.address(path, **kept) if query.before else None,
        older=query.address(path, before=entries.next, **kept) if entries.next else None,
    )
