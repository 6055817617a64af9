"""/workers: who works, and letting one end its work."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from gandy.desk.groups import WorkerDesk, WorkerSummary
from gandy.web.access.routes import Routes
from gandy.web.parts import CurrentOperator, Parts
from gandy.web.routers.shapes import HIGHEST_ID, page, page_of

router = Routes("/api/v1/workers", tag="workers")


@router.reads("", response_model=page_of(WorkerSummary))
async def list_workers(
    parts: Parts, operator: CurrentOperator, is_alive: Annotated[bool | None, Query()] = None
) -> object:
    """List workers, those heard of last first."""
    desk = WorkerDesk(parts.database, operator, owners=parts.owners)
    return page(await desk.list(is_alive=is_alive), HIGHEST_ID)


@router.changes("/{worker_id}/drain", status_code=204)
async def drain_worker(
    parts: Parts, operator: CurrentOperator, worker_id: Annotated[str, Path(max_length=100)]
) -> None:
    """Let a worker finish what it has and claim no more."""
    await WorkerDesk(parts.database, operator, owners=parts.owners).drain(worker_id)
