"""The queue: what waits and why, and one job more."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Path, Query, Request
from starlette.responses import Response

from gandy.desk.cancelling import CancelDesk
from gandy.desk.queue import EnqueueOptions, QueueDesk
from gandy.errors import JobNotFoundError
from gandy.store.reading.listings import EntryFilter, Gate, WantedStatus
from gandy.web.access.routes import Routes
from gandy.web.pages.schema_form import form_for, read_form
from gandy.web.pages.surroundings import PAGE_SIZE, Here, PageQuery
from gandy.web.parts import CurrentOperator, Parts
from gandy.web.routers.shapes import HIGHEST_ID, Word

router = Routes("/queue")

_STATUSES = {
    "undispatched": "to be done",
    "queued": "queued",
    "waiting": "waiting",
    "dispatched": "dispatched",
    "skipped": "skipped",
    "cancelled": "cancelled",
}
_GATES = {"open": "ready", "time": "its time", "manifest": "its manifest", "train": "a worker"}


class QueuePageQuery(PageQuery):
    """Which entries."""

    status: WantedStatus | None = None
    gate: Gate | None = None
    train: Word | None = None
    group: Word | None = None


@router.reads("")
async def list_entries(
    parts: Parts, operator: CurrentOperator, here: Here, query: Annotated[QueuePageQuery, Query()]
) -> Response:
    """List entries, the newest first; those that wait where nothing else is asked for."""
    wanted = EntryFilter(
        status=query.status or "undispatched",
        gate=query.gate,
        train=query.train,
        group=query.group,
        before=query.before,
        limit=PAGE_SIZE,
    )
    found = await QueueDesk(parts.database, operator, owners=parts.owners).list(wanted)
    path = here.link("/queue")
    return here.page(
        "queue.html",
        entries=found,
        query=query,
        status=wanted.status,
        statuses=_STATUSES,
        gates=_GATES,
        trains=parts.registry.names,
        is_filtered=query.is_filtered,
        newest=query.address(path) if query.before else None,
        older=query.address(path, before=found.next) if found.next else None,
    )


@router.changes("/{entry_id}/cancel")
async def cancel_entry(
    parts: Parts, operator: CurrentOperator, here: Here, entry_id: Annotated[int, Path(ge=1, le=HIGHEST_ID)]
) -> Response:
    """Cancel an entry."""
    desk = CancelDesk(parts.database, operator, parts.settings, owners=parts.owners)
    result = await desk.jobs([entry_id])
    if result.unknown:
        raise JobNotFoundError(entry_id)
    said = "is cancelled" if result.cancelled else "is asked to stop" if result.asked else "was over already"
    return here.done("/queue", f"{entry_id} {said}.")


@router.reads("/new/{train}")
async def show_form(parts: Parts, here: Here, train: Annotated[str, Path(max_length=200)]) -> Response:
    """Ask for the input of a job."""
    definition = parts.registry.get(train)
    return here.page("enqueue.html", train=definition, form=form_for(definition, {}))


@router.changes("/new/{train}")
async def enqueue(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    request: Request,
    train: Annotated[str, Path(max_length=200)],
    input_json: Annotated[str | None, Form()] = None,
) -> Response:
    """Queue one job."""
    definition = parts.registry.get(train)
    text = read_form(definition, await request.form()) if input_json is None else input_json.strip() or None
    job = await QueueDesk(parts.database, operator, owners=parts.owners).enqueue(
        train, text, EnqueueOptions(), registry=parts.registry
    )
    return here.done("/queue", f"{train} is queued as {job.id}.")
