"""Tables: what bounds each of them, Gandy's own and the application's, and whether that is kept."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Path
from starlette.responses import Response

from gandy.desk.lifecycle import list_contract_tables
from gandy.desk.tables import survey_tables
from gandy.web.access.routes import Routes
from gandy.web.pages.surroundings import Here
from gandy.web.parts import CurrentOperator, Parts
from gandy.web.routers.lifecycle import desk_of

router = Routes("/tables")

Scheduler = Annotated[str, Path(max_length=200)]


@router.reads("")
async def show_tables(parts: Parts, operator: CurrentOperator, here: Here) -> Response:
    """Show every table with its bounds."""
    return here.page(
        "tables.html",
        own=await survey_tables(parts.database, parts.owner, parts.settings),
        others=list_contract_tables(parts.contracts),
        progress=await desk_of(parts, operator).progress(),
    )


@router.reads("/plan")
async def show_plan(parts: Parts, operator: CurrentOperator, here: Here) -> Response:
    """Show what a sweep of the application's tables would do now."""
    desk = desk_of(parts, operator)
    return here.page("plan.html", rules=await desk.plan(), set_aside=await desk.quarantine())


@router.changes("/{scheduler}/sweep")
async def sweep(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    scheduler: Scheduler,
    is_confirmed: Annotated[bool, Form()] = False,  # noqa: FBT002 a box of the form
) -> Response:
    """Sweep one contract now."""
    swept = await desk_of(parts, operator).sweep(scheduler, is_confirmed=is_confirmed)
    said = f"{scheduler}: {sum(each.deleted for each in swept)} rows deleted."
    held = [rule for each in swept for rule in each.held]
    failures = [failure for each in swept for failure in each.failures]
    return here.done("/tables/plan", " ".join([said, *(f"Held back: {each}." for each in held), *failures]))
