"""Tables and contracts: REST interface and pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Form, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from gandy.context import Context
from gandy.desk.growth import FORECAST_FROM, TableGrowth, read_growth
from gandy.desk.lifecycle import (
    ContractTable,
    LifecycleDesk,
    RulePlan,
    RuleProgress,
    SetAside,
    Swept,
    list_contract_tables,
)
from gandy.desk.tables import OwnTables, survey_tables
from gandy.model.owners import Operator
from gandy.web.access.routes import Routes
from gandy.web.bodies import HIGHEST_ID, Body, Taken, Word, page, page_of, shape_of
from gandy.web.dependencies import CurrentContext, CurrentOperator
from gandy.web.surroundings import Here

router = Routes("/api/v1/lifecycle", tag="lifecycle")


class SweepBody(Body):
    """The contract to sweep."""

    scheduler: Word
    table: Word | None = None
    rule: Word | None = Field(
        None, description="The rule that the confirmation is for, as the plan names it."
    )
    is_confirmed: bool = Field(False, description="Confirm the deletion of more than half of a large table.")


@router.reads("/own", response_model=shape_of(OwnTables))
async def show_own(context: CurrentContext) -> object:
    """Show Gandy's own tables: bounds, sizes, lag."""
    return await survey_tables(context.database, context.owner, context.settings)


class GrowthQuery(BaseModel):
    """The query string of the growth; unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid")

    since: Annotated[timedelta, Taken("window")] = Field(
        FORECAST_FROM,
        description="The span of the samples; beyond a week, one a day.",
        json_schema_extra={"default": FORECAST_FROM.total_seconds()},
    )


@router.reads("/growth", response_model=page_of(TableGrowth))
async def show_growth(context: CurrentContext, query: Annotated[GrowthQuery, Query()]) -> object:
    """Show how tables grow, with a straight line through the last week as forecast."""
    return page(await read_growth(context.database, context.owners, since=query.since), HIGHEST_ID)


@router.reads("/tables", response_model=page_of(ContractTable))
async def list_tables(context: CurrentContext) -> object:
    """List the application's tables that contracts bound."""
    return page(list_contract_tables(context.contracts), HIGHEST_ID)


@router.reads("/progress", response_model=page_of(RuleProgress))
async def progress(context: CurrentContext, operator: CurrentOperator) -> object:
    """Return the progress of each rule, and the rows that need confirmation."""
    return page(await desk_of(context, operator).progress(), HIGHEST_ID)


@router.reads("/plan", response_model=page_of(RulePlan))
async def plan(context: CurrentContext, operator: CurrentOperator) -> object:
    """Return what a sweep would delete now; writes nothing."""
    return page(await desk_of(context, operator).plan(), HIGHEST_ID)


@router.reads("/quarantine", response_model=page_of(SetAside))
async def quarantine(context: CurrentContext, operator: CurrentOperator) -> object:
    """List the rows that could not be deleted."""
    return page(await desk_of(context, operator).quarantine(), HIGHEST_ID)


@router.changes("/sweep", response_model=page_of(Swept))
async def sweep(context: CurrentContext, operator: CurrentOperator, body: SweepBody) -> object:
    """Sweep one contract now; a repeated request finds nothing left to delete."""
    desk = desk_of(context, operator)
    swept = await desk.sweep(body.scheduler, table=body.table, rule=body.rule, is_confirmed=body.is_confirmed)
    return page(swept, HIGHEST_ID)


def desk_of(context: Context, operator: Operator) -> LifecycleDesk:
    """Return the desk for contracts."""
    return LifecycleDesk(context.contracts, context.database, operator, owner=context.owner)


pages = Routes("/tables")

Scheduler = Annotated[str, Path(max_length=200)]


@pages.reads("")
async def show_tables(context: CurrentContext, operator: CurrentOperator, here: Here) -> Response:
    """Show every table with its bounds."""
    return here.page(
        "tables.html",
        own=await survey_tables(context.database, context.owner, context.settings, sizes=here.sizes),
        others=list_contract_tables(context.contracts),
        progress=await desk_of(context, operator).progress(),
        growth=await here.growth.get(lambda: read_growth(context.database, context.owners)),
    )


@pages.reads("/plan")
async def show_plan(context: CurrentContext, operator: CurrentOperator, here: Here) -> Response:
    """Show what a sweep of the application's tables would delete now."""
    desk = desk_of(context, operator)
    return here.page("plan.html", rules=await desk.plan(), set_aside=await desk.quarantine())


class Confirmed(BaseModel):
    """The rule of the plan that an operator confirms."""

    model_config = ConfigDict(extra="ignore")

    table: Word | None = None
    rule: Word | None = None
    is_confirmed: bool = False


@pages.changes("/{scheduler}/sweep")
async def sweep_page(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    scheduler: Scheduler,
    confirmed: Annotated[Confirmed, Form()],
) -> Response:
    """Sweep one contract now."""
    swept = await desk_of(context, operator).sweep(
        scheduler, table=confirmed.table, rule=confirmed.rule, is_confirmed=confirmed.is_confirmed
    )
    said = f"{scheduler}: {sum(each.deleted for each in swept)} rows deleted."
    held = [rule for each in swept for rule in each.held]
    failures = [failure for each in swept for failure in each.failures]
    return here.done("/tables/plan", " ".join([said, *(f"Unconfirmed: {each}." for each in held), *failures]))
