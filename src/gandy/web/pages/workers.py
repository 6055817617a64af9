"""Workers, trains and the trail: short pages of one table each."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from gandy.desk.audit import read_trail
from gandy.desk.groups import WorkerDesk, list_trains
from gandy.web.access.routes import Routes
from gandy.web.pages.surroundings import PAGE_SIZE, Here, PageQuery
from gandy.web.parts import CurrentOperator, Parts

router = Routes()

_SHOWN = 200


@router.reads("/workers")
async def show_workers(parts: Parts, operator: CurrentOperator, here: Here) -> Response:
    """List workers, those heard of last first."""
    desk = WorkerDesk(parts.database, operator, owners=parts.owners)
    return here.page("workers.html", workers=await desk.list(limit=_SHOWN))


@router.changes("/workers/{worker_id}/drain")
async def drain(
    parts: Parts, operator: CurrentOperator, here: Here, worker_id: Annotated[str, Path(max_length=100)]
) -> Response:
    """Let a worker finish what it has and claim no more."""
    await WorkerDesk(parts.database, operator, owners=parts.owners).drain(worker_id)
    return here.done("/workers", f"{worker_id[:8]} ends what it has and takes no more.")


@router.reads("/trains")
async def show_trains(parts: Parts, here: Here) -> Response:
    """List the trains of this application."""
    return here.page("trains.html", trains=list_trains(parts.registry, parts.settings.retry))


@router.reads("/audit")
async def show_audit(parts: Parts, here: Here, query: Annotated[PageQuery, Query()]) -> Response:
    """Show who did what."""
    entries = await read_trail(parts.database, parts.owners, before=query.before, limit=PAGE_SIZE)
    path = here.link("/audit")
    return here.page(
        "audit.html",
        entries=entries,
        newest=path if query.before else None,
        older=query.address(path, before=entries.next) if entries.next else None,
    )
