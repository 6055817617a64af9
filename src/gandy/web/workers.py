"""Workers, trains and the audit trail: REST interface and pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from gandy.desk.audit import read_trail
from gandy.desk.groups import TrainSummary, WorkerDesk, WorkerSummary, list_trains
from gandy.web.access.routes import Routes
from gandy.web.bodies import HIGHEST_ID, page, page_of
from gandy.web.parts import CurrentOperator, Parts
from gandy.web.surroundings import PAGE_SIZE, Here, PageQuery

router = Routes("/api/v1/workers", tag="workers")


@router.reads("", response_model=page_of(WorkerSummary))
async def list_workers(
    parts: Parts, operator: CurrentOperator, is_alive: Annotated[bool | None, Query()] = None
) -> object:
    """List workers, the most recent heartbeat first."""
    desk = WorkerDesk(parts.database, operator, owners=parts.owners)
    return page(await desk.list(is_alive=is_alive), HIGHEST_ID)


@router.changes("/{worker_id}/drain", status_code=204)
async def drain_worker(
    parts: Parts, operator: CurrentOperator, worker_id: Annotated[str, Path(max_length=100)]
) -> None:
    """Let a worker finish its runs and claim no more."""
    await WorkerDesk(parts.database, operator, owners=parts.owners).drain(worker_id)


train_router = Routes("/api/v1/trains", tag="trains")


@train_router.reads("", response_model=page_of(TrainSummary))
async def list_of_trains(parts: Parts) -> object:
    """List the trains by name."""
    return page(list_trains(parts.registry, parts.settings.retry), HIGHEST_ID)


pages = Routes()

_SHOWN = 200


@pages.reads("/workers")
async def show_workers(parts: Parts, operator: CurrentOperator, here: Here) -> Response:
    """List workers, the most recent heartbeat first."""
    desk = WorkerDesk(parts.database, operator, owners=parts.owners)
    return here.page("workers.html", workers=await desk.list(limit=_SHOWN))


@pages.changes("/workers/{worker_id}/drain")
async def drain(
    parts: Parts, operator: CurrentOperator, here: Here, worker_id: Annotated[str, Path(max_length=100)]
) -> Response:
    """Let a worker finish its runs and claim no more."""
    await WorkerDesk(parts.database, operator, owners=parts.owners).drain(worker_id)
    return here.done("/workers", f"{worker_id[:8]} finishes its runs and claims no more.")


@pages.reads("/trains")
async def show_trains(parts: Parts, here: Here) -> Response:
    """List the trains of this application."""
    return here.page("trains.html", trains=list_trains(parts.registry, parts.settings.retry))


@pages.reads("/audit")
async def show_audit(parts: Parts, here: Here, query: Annotated[PageQuery, Query()]) -> Response:
    """Show the audit trail."""
    entries = await read_trail(parts.database, parts.owners, before=query.before, limit=PAGE_SIZE)
    path = here.link("/audit")
    return here.page(
        "audit.html",
        entries=entries,
        newest=path if query.before else None,
        older=query.address(path, before=entries.next) if entries.next else None,
    )
