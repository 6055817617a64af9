"""Dead letters: one, a few or all of them, requeued or put aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Form, Query, Request
from starlette.responses import Response

from gandy.errors import ResolutionNoteMissingError
from gandy.store.reading.listings import LetterFilter, LetterStatus
from gandy.web.access.routes import Routes
from gandy.web.pages.schema_form import form_for, read_form
from gandy.web.pages.surroundings import PAGE_SIZE, Here, PageQuery, Surroundings
from gandy.web.parts import CurrentOperator, Parts
from gandy.web.routers.bodies import Taken
from gandy.web.routers.dead_letters import MOST_AT_ONCE, LetterId, desk_of, refuse_unknown
from gandy.web.routers.shapes import Id, Word

if TYPE_CHECKING:
    from gandy.desk.dead_letters import DeadLetterDesk

router = Routes("/dead-letters")

_STATUSES = ("awaiting_intervention", "retried", "acknowledged")

Ids = Annotated[list[Id], Form(max_length=MOST_AT_ONCE)]
Note = Annotated[str, Taken("reason", is_typed=True), Form()]
Verb = Annotated[Literal["requeue", "acknowledge"], Form()]
Scope = Annotated[Literal["selected", "all"], Form()]
TrainName = Annotated[str, Form(max_length=200)]


class LetterPageQuery(PageQuery):
    """Which letters."""

    status: LetterStatus | None = None
    train: Word | None = None


@router.reads("")
async def list_letters(
    parts: Parts, operator: CurrentOperator, here: Here, query: Annotated[LetterPageQuery, Query()]
) -> Response:
    """List letters, the newest first; those that wait where nothing else is asked for."""
    wanted = LetterFilter(
        status=query.status or "awaiting_intervention",
        train=query.train,
        before=query.before,
        limit=PAGE_SIZE,
    )
    found = await desk_of(parts, operator).list(wanted)
    path = here.link("/dead-letters")
    return here.page(
        "dead_letters.html",
        letters=found,
        query=query,
        status=wanted.status,
        statuses=_STATUSES,
        trains=parts.registry.names,
        is_filtered=query.is_filtered,
        newest=query.address(path) if query.before else None,
        older=query.address(path, before=found.next) if found.next else None,
    )


@router.reads("/{letter_id}")
async def show_letter(parts: Parts, operator: CurrentOperator, here: Here, letter_id: LetterId) -> Response:
    """Show one letter."""
    letter = await desk_of(parts, operator).show(letter_id)
    is_known = letter.train in parts.registry
    form = form_for(parts.registry.get(letter.train), letter.input) if is_known else None
    return here.page("dead_letter.html", letter=letter, form=form)


@router.changes("/preview")
async def preview(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    verb: Verb,
    scope: Scope = "selected",
    ids: Ids = [],  # noqa: B006 the framework makes a new one each time
    train: TrainName = "",
) -> Response:
    """Say how many letters an action would resolve, and ask."""
    wanted = LetterFilter(train=train or None)
    desk = desk_of(parts, operator)
    found = await (desk.count_known(ids) if scope == "selected" else desk.count_awaiting(wanted))
    return here.page("dead_letters_confirm.html", verb=verb, scope=scope, ids=ids, train=train, found=found)


@router.changes("/resolve")
async def resolve(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    verb: Verb,
    scope: Scope = "selected",
    ids: Ids = [],  # noqa: B006 the framework makes a new one each time
    train: TrainName = "",
    note: Note = "",
) -> Response:
    """Requeue or acknowledge what was confirmed."""
    desk = desk_of(parts, operator)
    wanted = LetterFilter(train=train or None)
    if verb == "requeue":
        result = await (desk.requeue(ids) if scope == "selected" else desk.requeue_all(wanted))
        refuse_unknown(result, ids if scope == "selected" else [])
        return here.done("/dead-letters", f"{len(result.requeued)} requeued.")
    return await _acknowledge(here, desk, ids if scope == "selected" else wanted, note.strip())


@router.changes("/{letter_id}/requeue")
async def requeue(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    request: Request,
    letter_id: LetterId,
    input_json: Annotated[str | None, Form()] = None,
    is_edited: Annotated[Literal["", "true"], Form()] = "",
) -> Response:
    """Run the job of a letter once more, with its own input or an edited one."""
    letter = await desk_of(parts, operator).show(letter_id)
    text = input_json
    if text is None and is_edited:
        text = read_form(parts.registry.get(letter.train), await request.form())
    result = await desk_of(parts, operator).requeue([letter_id], input_json=text)
    said = f"Requeued as {result.requeued[0].entry_id}." if result.requeued else "It was resolved before."
    return here.done(f"/dead-letters/{letter_id}", said)


@router.changes("/{letter_id}/acknowledge")
async def acknowledge(
    parts: Parts, operator: CurrentOperator, here: Here, letter_id: LetterId, note: Note = ""
) -> Response:
    """Close a letter without another run."""
    return await _acknowledge(here, desk_of(parts, operator), [letter_id], note.strip())


async def _acknowledge(
    here: Surroundings, desk: DeadLetterDesk, which: list[int] | LetterFilter, note: str
) -> Response:
    if not note:
        raise ResolutionNoteMissingError
    if isinstance(which, LetterFilter):
        result = await desk.acknowledge_all(which, note)
    else:
        result = await desk.acknowledge(which, note)
        refuse_unknown(result, which)
    return here.done("/dead-letters", f"{len(result.acknowledged)} acknowledged.")
