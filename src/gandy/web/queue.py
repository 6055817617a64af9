"""The queue: REST interface and pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Form, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from gandy.context import Context
from gandy.desk.cancelling import UndispatchedStatus
from gandy.desk.entries import EntryDetail, EntryExplanation, EntrySummary
from gandy.desk.jobs import read_story
from gandy.desk.queue import EnqueueOptions, QueueDesk
from gandy.errors import EntryOverError, JobNotFoundError
from gandy.model.owners import Operator
from gandy.settings.bounds import Timeout
from gandy.store.drivers.database import ReadingRunner
from gandy.store.reading.listings import EntryFilter, EntrySort, Gate, WantedStatus
from gandy.web.access.routes import Routes
from gandy.web.bodies import (
    HIGHEST_ID,
    CancelAnswer,
    InputBody,
    JobAnswer,
    OncePerKey,
    Taken,
    Word,
    found_page,
    input_text,
    page_of,
    shape_of,
)
from gandy.web.choosing.filters import ChosenBody, ChosenPageQuery, ChosenQuery, PreviewAnswer, sorts
from gandy.web.dependencies import CurrentContext, CurrentOperator, cancel_desk
from gandy.web.surroundings import PAGE_SIZE, Here, form_for, read_form

router = Routes("/api/v1/queue", tag="queue")

EntryId = Annotated[int, Path(ge=1, le=HIGHEST_ID)]


class EntryQuery(ChosenQuery):
    """Filter of entries."""

    status: WantedStatus | None = Field(None, description="A state; `undispatched`: queued or waiting.")
    gate: Gate | None = None
    sort: EntrySort = Field("id", description="The newest first; `scheduled_at`, soonest first: `gate=time`.")


class SeveralEntriesBody(ChosenBody):
    """The entries to cancel: these ids, or the undispatched ones that match a filter."""

    status: UndispatchedStatus | None = None
    gate: Gate | None = None


class EnqueueBody(InputBody):
    """A job to queue; omitted values are the train's."""

    train: Word
    group: Annotated[str, Taken("group")] | None = None
    delay: Annotated[timedelta, Taken("delay")] | None = Field(None, description="From now.")
    priority: Annotated[int, Taken("priority")] | None = None
    max_retries: Annotated[int, Taken("max_retries")] | None = None
    retry: Annotated[bool, Taken("retry")] | None = None
    retry_delay: Annotated[timedelta, Taken("retry_delay")] | None = Field(
        None, description="Delay before the first retry."
    )
    timeout: Annotated[Timeout, Taken("timeout")] | None = Field(
        None, description="Maximum duration of a run, or `none`."
    )
    unique_for: Annotated[timedelta, Taken("unique_for")] | None = Field(
        None, description="Period in which the same job is queued only once."
    )
    key: Annotated[str, Taken("key")] | None = Field(
        None, description="Idempotency key; by default the input."
    )

    def options(self) -> EnqueueOptions:
        """Convert it for the desk."""
        return EnqueueOptions(
            group=self.group,
            delay=self.delay,
            priority=self.priority,
            max_retries=self.max_retries,
            retry=self.retry,
            retry_delay=self.retry_delay,
            timeout=self.timeout,
            unique_for=self.unique_for,
            key=self.key,
        )


@router.reads("", response_model=page_of(EntrySummary))
async def list_entries(
    context: CurrentContext, operator: CurrentOperator, query: Annotated[EntryQuery, Query()]
) -> object:
    """List entries, the newest first."""
    wanted = EntryFilter(
        status=query.status,
        gate=query.gate,
        sort=query.sort,
        before=query.before,
        limit=query.limit,
        **query.common(),
    )
    return found_page(await desk_of(context, operator).list(wanted))


@router.reads("/{entry_id}", response_model=shape_of(EntryDetail))
async def show_entry(context: CurrentContext, operator: CurrentOperator, entry_id: EntryId) -> object:
    """Show one entry with its input, and what it waits for."""
    return await desk_of(context, operator).show(entry_id)


@router.reads("/{entry_id}/explain", response_model=shape_of(EntryExplanation))
async def explain_entry(context: CurrentContext, operator: CurrentOperator, entry_id: EntryId) -> object:
    """Explain why a job has not started: every condition, and what to do."""
    return await desk_of(context, operator).explain(entry_id)


@router.changes("/enqueue")
async def enqueue(
    context: CurrentContext, operator: CurrentOperator, once: OncePerKey, body: EnqueueBody
) -> JobAnswer:
    """Queue one job of a train of this application."""

    async def make(database: ReadingRunner) -> JobAnswer:
        job = await QueueDesk(database, operator, owners=context.owners).enqueue(
            body.train, input_text(body), body.options(), registry=context.registry
        )
        return JobAnswer(id=job.id, is_new=job.is_new)

    return await once.job(make)


@router.changes("/cancel")
async def cancel_several(
    context: CurrentContext, operator: CurrentOperator, body: SeveralEntriesBody
) -> CancelAnswer | PreviewAnswer:
    """Cancel entries: these, or all undispatched ones that match a filter."""
    desk = cancel_desk(context, operator)
    ids, wanted = body.ids or [], EntryFilter(status=body.status, gate=body.gate, **body.common())
    if body.preview:
        return PreviewAnswer.of(await desk.preview_entries(wanted))
    result = await desk.entries(ids, wanted)
    if ids and len(result.unknown) == len(ids):
        raise JobNotFoundError(ids[0])
    return CancelAnswer.of(result)


@router.changes("/{entry_id}/cancel")
async def cancel_entry(context: CurrentContext, operator: CurrentOperator, entry_id: EntryId) -> CancelAnswer:
    """Cancel an entry, or its run if it has started."""
    result = await cancel_desk(context, operator).jobs([entry_id])
    if result.unknown:
        raise JobNotFoundError(entry_id)
    return CancelAnswer.of(result)


def desk_of(context: Context, operator: Operator) -> QueueDesk:
    """Return the desk of the queue."""
    return QueueDesk(
        context.database,
        operator,
        owners=context.owners,
        registry=context.registry,
        settings=context.settings,
    )


pages = Routes("/queue")

_STATUSES = {
    "undispatched": "queued or waiting",
    "queued": "queued",
    "waiting": "waiting",
    "dispatched": "dispatched",
    "skipped": "skipped",
    "cancelled": "cancelled",
}
_GATES = {"open": "ready", "time": "its time", "manifest": "its manifest", "train": "a worker"}


class QueuePageQuery(ChosenPageQuery):
    """Filter of entries."""

    status: WantedStatus | None = None
    gate: Gate | None = None
    sort: EntrySort | None = None


@pages.reads("")
async def list_entries_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, query: Annotated[QueuePageQuery, Query()]
) -> Response:
    """List entries, the newest first; by default the undispatched ones."""
    status = query.status or "undispatched"
    served = {"id": True, "scheduled_at": query.gate == "time" and status in {"undispatched", "queued"}}
    sort: EntrySort = query.sort if query.sort and served[query.sort] else "id"
    wanted = EntryFilter(
        status=status, gate=query.gate, sort=sort, before=query.before, limit=PAGE_SIZE, **query.common()
    )
    found = await desk_of(context, operator).list(wanted)
    path = here.link("/queue")
    return here.page(
        "queue.html",
        entries=found,
        query=query,
        status=wanted.status,
        statuses=_STATUSES,
        gates=_GATES,
        trains=context.registry.names,
        is_filtered=query.is_filtered,
        sort=sort,
        sorts=sorts(query, path, served),
        newest=query.address(path) if query.before else None,
        older=query.address(path, before=found.next) if found.next else None,
    )


@pages.reads("/{entry_id}")
async def show_entry_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, entry_id: EntryId
) -> Response:
    """Show one entry and why it waits; the page of its run, once it is dispatched."""
    desk = desk_of(context, operator)
    try:
        entry = await desk.show(entry_id)
    except EntryOverError:
        return here.moved(f"/runs/{entry_id}")
    if entry.status == "dispatched":
        return here.moved(f"/runs/{entry_id}")
    return here.page(
        "entry.html",
        entry=entry,
        why=await desk.explain(entry_id),
        story=await read_story(context.database, entry_id, context.owners),
    )


@pages.changes("/{entry_id}/cancel")
async def cancel_entry_page(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    entry_id: EntryId,
) -> Response:
    """Cancel an entry."""
    result = await cancel_desk(context, operator).jobs([entry_id])
    if result.unknown:
        raise JobNotFoundError(entry_id)
    said = "is cancelled" if result.cancelled else "is asked to stop" if result.asked else "had already ended"
    return here.done("/queue", f"{entry_id} {said}.")


@pages.reads("/new/{train}")
async def show_form(
    context: CurrentContext, here: Here, train: Annotated[str, Path(max_length=200)]
) -> Response:
    """Show the form for the input of a job."""
    definition = context.registry.get(train)
    return here.page("enqueue.html", train=definition, form=form_for(definition, {}))


@pages.changes("/new/{train}")
async def enqueue_page(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    request: Request,
    train: Annotated[str, Path(max_length=200)],
    input_json: Annotated[str | None, Form()] = None,
) -> Response:
    """Queue one job."""
    definition = context.registry.get(train)
    text = read_form(definition, await request.form()) if input_json is None else input_json.strip() or None
    job = await QueueDesk(context.database, operator, owners=context.owners).enqueue(
        train, text, EnqueueOptions(), registry=context.registry
    )
    return here.done("/queue", f"{train} is queued as {job.id}.")
