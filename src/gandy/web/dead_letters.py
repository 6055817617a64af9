"""Dead letters: REST interface and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Form, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from gandy.context import Context
from gandy.desk.choosing.walks import Preview, refuse_unclear_letters
from gandy.desk.dead_letters import DeadLetterDesk, LetterDetail, LetterSummary
from gandy.desk.explain import Count
from gandy.desk.jobs import read_deeds, read_story
from gandy.errors import DeadLetterNotFoundError, ResolutionNoteMissingError
from gandy.store.audit import letter_subject
from gandy.store.letters import AcknowledgeResult, Requeued, RequeueResult
from gandy.store.reading.listings import LetterFilter, LetterSort, LetterStatus
from gandy.web.access.routes import Routes
from gandy.web.bodies import (
    HIGHEST_ID,
    Body,
    InputBody,
    LookedAnswer,
    LookedAtAnswer,
    Taken,
    found_page,
    input_text,
    page_of,
    shape_of,
)
from gandy.web.choosing.filters import (
    BulkForm,
    ChosenBody,
    ChosenPageQuery,
    ChosenQuery,
    PreviewAnswer,
    sorts,
)
from gandy.web.dependencies import CurrentContext, CurrentOperator
from gandy.web.surroundings import PAGE_SIZE, Here, PageContext, form_for, read_form

if TYPE_CHECKING:
    from collections.abc import Sequence


router = Routes("/api/v1/dead-letters", tag="dead-letters")

LetterId = Annotated[int, Path(ge=1, le=HIGHEST_ID)]


class LetterQuery(ChosenQuery):
    """Filter of letters."""

    status: LetterStatus | None = None
    sort: LetterSort = Field(
        "id", description="The newest first; `resolved_at` needs a `status` of resolved letters."
    )


class AcknowledgeBody(Body):
    """Why no further run is needed."""

    note: Annotated[str, Taken("note")]


class SeveralBody(ChosenBody):
    """The letters to resolve: these ids, or all unresolved ones that match a filter."""

    all: bool = False

    def wanted(self) -> LetterFilter:
        """Return the filter for `all`."""
        return LetterFilter(**self.common())


class SeveralAcknowledgeBody(SeveralBody, AcknowledgeBody):
    """The letters to resolve, and why no further run is needed."""


class ResolutionAnswer(LookedAtAnswer):
    """The result of a resolution, by letter id."""

    resolved: list[int] = Field(description="Letters that this request resolved.")
    jobs: list[int] = Field(description="Jobs that run again.")
    resolved_before: list[int]
    unknown: list[int]


@router.reads("", response_model=page_of(LetterSummary))
async def list_letters(
    context: CurrentContext, operator: CurrentOperator, query: Annotated[LetterQuery, Query()]
) -> object:
    """List letters, the newest first."""
    wanted = LetterFilter(
        status=query.status, sort=query.sort, before=query.before, limit=query.limit, **query.common()
    )
    return found_page(await desk_of(context, operator).list(wanted))


@router.reads("/{letter_id}", response_model=shape_of(LetterDetail))
async def show_letter(context: CurrentContext, operator: CurrentOperator, letter_id: LetterId) -> object:
    """Show one letter."""
    return await desk_of(context, operator).show(letter_id)


@router.changes("/requeue")
async def requeue_several(
    context: CurrentContext, operator: CurrentOperator, body: SeveralBody
) -> ResolutionAnswer | PreviewAnswer:
    """Queue the jobs of letters again; letters that are already resolved are not changed."""
    desk = desk_of(context, operator)
    refuse_unclear_letters(body.ids or [], body.wanted(), everything=body.all)
    if body.preview:
        return PreviewAnswer.of(await desk.preview(body.wanted()))
    if body.all:
        return requeue_answer(await desk.requeue_all(body.wanted()))
    result = await desk.requeue(body.ids or [])
    refuse_unknown(result, body.ids or [])
    return requeue_answer(result)


@router.changes("/acknowledge")
async def acknowledge_several(
    context: CurrentContext, operator: CurrentOperator, body: SeveralAcknowledgeBody
) -> ResolutionAnswer | PreviewAnswer:
    """Close letters without another run."""
    desk = desk_of(context, operator)
    refuse_unclear_letters(body.ids or [], body.wanted(), everything=body.all)
    if body.preview:
        return PreviewAnswer.of(await desk.preview(body.wanted()))
    if body.all:
        return acknowledge_answer(await desk.acknowledge_all(body.wanted(), body.note))
    result = await desk.acknowledge(body.ids or [], body.note)
    refuse_unknown(result, body.ids or [])
    return acknowledge_answer(result)


@router.changes("/{letter_id}/requeue")
async def requeue(
    context: CurrentContext, operator: CurrentOperator, letter_id: LetterId, body: InputBody | None = None
) -> ResolutionAnswer:
    """Queue the job of a letter again, with the original or another input."""
    result = await desk_of(context, operator).requeue([letter_id], input_json=input_text(body))
    refuse_unknown(result, [letter_id])
    return requeue_answer(result)


@router.changes("/{letter_id}/acknowledge")
async def acknowledge(
    context: CurrentContext, operator: CurrentOperator, letter_id: LetterId, body: AcknowledgeBody
) -> ResolutionAnswer:
    """Close a letter without another run."""
    result = await desk_of(context, operator).acknowledge([letter_id], body.note)
    refuse_unknown(result, [letter_id])
    return acknowledge_answer(result)


def desk_of(context: Context, operator: CurrentOperator) -> DeadLetterDesk:
    """Return the desk for dead letters."""
    return DeadLetterDesk(context.database, operator, owners=context.owners, registry=context.registry)


def refuse_unknown(result: RequeueResult | AcknowledgeResult, ids: Sequence[int]) -> None:
    """Refuse ids if none is a letter of this application; otherwise the response lists unknown ids."""
    if ids and len(result.unknown) == len(ids):
        raise DeadLetterNotFoundError(ids[0])


def requeue_answer(result: RequeueResult) -> ResolutionAnswer:
    """Convert the result of a requeue."""
    requeued: tuple[Requeued, ...] = result.requeued
    return ResolutionAnswer(
        resolved=[each.letter_id for each in requeued],
        jobs=[each.entry_id for each in requeued],
        resolved_before=list(result.resolved_before),
        unknown=list(result.unknown),
        looked=LookedAnswer.of(result.looked),
        next=result.next,
    )


def acknowledge_answer(result: AcknowledgeResult) -> ResolutionAnswer:
    """Convert the result of an acknowledgement."""
    return ResolutionAnswer(
        resolved=list(result.acknowledged),
        jobs=[],
        resolved_before=list(result.resolved_before),
        unknown=list(result.unknown),
        looked=LookedAnswer.of(result.looked),
        next=result.next,
    )


pages = Routes("/dead-letters")

_STATUSES = ("awaiting_intervention", "retried", "acknowledged")

Note = Annotated[str, Taken("reason", is_typed=True), Form()]


class LetterPageQuery(ChosenPageQuery):
    """Filter of letters."""

    status: LetterStatus | None = None
    sort: LetterSort | None = None


@pages.reads("")
async def list_letters_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, query: Annotated[LetterPageQuery, Query()]
) -> Response:
    """List letters, the newest first; by default the unresolved ones."""
    status = query.status or "awaiting_intervention"
    served = {"id": True, "resolved_at": status != "awaiting_intervention"}
    sort: LetterSort = query.sort if query.sort and served[query.sort] else "id"
    wanted = LetterFilter(status=status, sort=sort, before=query.before, limit=PAGE_SIZE, **query.common())
    found = await desk_of(context, operator).list(wanted)
    path = here.link("/dead-letters")
    return here.page(
        "dead_letters.html",
        letters=found,
        query=query,
        status=wanted.status,
        statuses=_STATUSES,
        trains=context.registry.names,
        is_filtered=query.is_filtered,
        sort=sort,
        sorts=sorts(query, path, served),
        newest=query.address(path) if query.before else None,
        older=query.address(path, before=found.next) if found.next else None,
    )


@pages.reads("/{letter_id}")
async def show_letter_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, letter_id: LetterId
) -> Response:
    """Show one letter."""
    letter = await desk_of(context, operator).show(letter_id)
    is_known = letter.train in context.registry
    form = form_for(context.registry.get(letter.train), letter.input) if is_known else None
    return here.page(
        "dead_letter.html",
        letter=letter,
        form=form,
        story=await read_story(context.database, letter.run_id, context.owners),
        deeds=await read_deeds(context.database, letter_subject(letter_id), context.owners),
    )


class LetterForm(BulkForm):
    """The letters to resolve, and how."""

    verb: Literal["requeue", "acknowledge"]
    note: Note = ""

    def wanted(self) -> LetterFilter:
        """Convert the filters for the desk; selected ids take none."""
        if self.scope == "selected":
            return LetterFilter()
        return LetterFilter(**self.common())


@pages.changes("/preview")
async def preview(
    context: CurrentContext, operator: CurrentOperator, here: Here, form: Annotated[LetterForm, Form()]
) -> Response:
    """Show how many letters an action would resolve, and ask for confirmation."""
    desk = desk_of(context, operator)
    if form.scope == "selected":
        count = await desk.count_known(form.ids)
        return _confirm(here, form, count, form.selected(form.ids), is_preview=False)
    found = await desk.preview(form.wanted())
    return _confirm(here, form, found, form.confirmed(found), is_preview=True)


def _confirm(
    here: PageContext, form: LetterForm, found: Preview | Count, fields: dict[str, str], *, is_preview: bool
) -> Response:
    further = form.further(found) if isinstance(found, Preview) else None
    return here.page(
        "dead_letters_confirm.html",
        form=form,
        fields=fields,
        found=found,
        further=further,
        preview=is_preview,
    )


@pages.changes("/resolve")
async def resolve(
    context: CurrentContext, operator: CurrentOperator, here: Here, form: Annotated[LetterForm, Form()]
) -> Response:
    """Requeue or acknowledge the confirmed letters."""
    desk = desk_of(context, operator)
    wanted, ids = form.wanted(), sorted(form.chosen_ids)
    refuse_unclear_letters(ids, wanted, everything=form.scope == "all")
    if form.verb == "requeue":
        result = await (desk.requeue(ids) if ids else desk.requeue_all(wanted))
        refuse_unknown(result, ids)
        said = _said(f"{len(result.requeued)} requeued", result)
    else:
        said = await _acknowledge(desk, ids or wanted, form.note.strip())
    return here.done("/dead-letters", form.said(said))


@pages.changes("/{letter_id}/requeue")
async def requeue_page(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    request: Request,
    letter_id: LetterId,
    input_json: Annotated[str | None, Form()] = None,
    is_edited: Annotated[Literal["", "true"], Form()] = "",
) -> Response:
    """Queue the job of a letter again, with the original or an edited input."""
    letter = await desk_of(context, operator).show(letter_id)
    text = input_json
    if text is None and is_edited:
        text = read_form(context.registry.get(letter.train), await request.form())
    result = await desk_of(context, operator).requeue([letter_id], input_json=text)
    said = f"Requeued as {result.requeued[0].entry_id}." if result.requeued else "It is already resolved."
    return here.done(f"/dead-letters/{letter_id}", said)


@pages.changes("/{letter_id}/acknowledge")
async def acknowledge_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, letter_id: LetterId, note: Note = ""
) -> Response:
    """Close a letter without another run."""
    said = await _acknowledge(desk_of(context, operator), [letter_id], note.strip())
    return here.done("/dead-letters", said)


async def _acknowledge(desk: DeadLetterDesk, which: list[int] | LetterFilter, note: str) -> str:
    if not note:
        raise ResolutionNoteMissingError
    if isinstance(which, LetterFilter):
        result = await desk.acknowledge_all(which, note)
    else:
        result = await desk.acknowledge(which, note)
        refuse_unknown(result, which)
    return _said(f"{len(result.acknowledged)} acknowledged", result)


def _said(done: str, result: RequeueResult | AcknowledgeResult) -> str:
    already = f", {len(result.resolved_before)} already resolved" if result.resolved_before else ""
    unknown = f", {len(result.unknown)} not found" if result.unknown else ""
    return f"{done}{already}{unknown}."
