"""Workers and trains: REST interface and pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from gandy.desk.groups import TrainSummary, WorkerDesk, WorkerSummary, list_trains
from gandy.web.access.routes import Routes
from gandy.web.bodies import HIGHEST_ID, page, page_of
from gandy.web.dependencies import CurrentContext, CurrentOperator
from gandy.web.surroundings import Here

router = Routes("/api/v1/workers", tag="workers")


@router.reads("", response_model=page_of(WorkerSummary))
async def list_workers(
    context: CurrentContext, operator: CurrentOperator, is_alive: Annotated[bool | None, Query()] = None
) -> object:
    """List workers, the most recent heartbeat first."""
    desk = WorkerDesk(context.database, operator, owners=context.owners)
    return page(await desk.list(is_alive=is_alive), HIGHEST_ID)


@router.changes("/{worker_id}/drain", status_code=204)
async def drain_worker(
    context: CurrentContext, operator: CurrentOperator, worker_id: Annotated[str, Path(max_length=100)]
) -> None:
    """Let a worker finish its runs and claim no more."""
    await WorkerDesk(context.database, operator, owners=context.owners).drain(worker_id)


train_router = Routes("/api/v1/trains", tag="trains")


@train_router.reads("", response_model=page_of(TrainSummary))
async def list_of_trains(context: CurrentContext) -> object:
    """List the trains by name."""
    return page(list_trains(context.registry, context.settings.retry), HIGHEST_ID)


pages = Routes()

_SHOWN = 200


@pages.reads("/workers")
async def show_workers(context: CurrentContext, operator: CurrentOperator, here: Here) -> Response:
    """List workers, the most recent heartbeat first."""
    desk = WorkerDesk(context.database, operator, owners=context.owners)
    return here.page("workers.html", workers=await desk.list(limit=_SHOWN))


@pages.changes("/workers/{worker_id}/drain")
async def drain(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    worker_id: Annotated[str, Path(max_length=100)],
) -> Response:
    """Let a worker finish its runs and claim no more."""
    await WorkerDesk(context.database, operator, owners=context.owners).drain(worker_id)
    return here.done("/workers", f"{worker_id[:8]} finishes its runs and claims no more.")


@pages.reads("/trains")
async def show_trains(context: CurrentContext, here: Here) -> Response:
    """List the trains of this application."""
    return here.page("trains.html", trains=list_trains(context.registry, context.settings.retry))
