"""/dead-letters: what was parked for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field

from gandy.desk.dead_letters import DeadLetterDesk, LetterDetail, LetterSummary
from gandy.errors import DeadLetterNotFoundError
from gandy.store.letters import AcknowledgeResult, Requeued, RequeueResult
from gandy.store.reading.listings import LetterFilter, LetterStatus
from gandy.web.access.routes import Routes
from gandy.web.parts import CurrentOperator, Parts, WebParts
from gandy.web.routers.bodies import InputBody, Taken, input_text
from gandy.web.routers.shapes import HIGHEST_ID, Body, Id, Paged, Word, found_page, page_of, shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

router = Routes("/api/v1/dead-letters", tag="dead-letters")

LetterId = Annotated[int, Path(ge=1, le=HIGHEST_ID)]
MOST_AT_ONCE = 1_000


class LetterQuery(Paged):
    """Which letters."""

    status: LetterStatus | None = None
    train: Word | None = None
    manifest: Word | None = None


class AcknowledgeBody(Body):
    """Why no further run is needed."""

    note: Annotated[str, Taken("note")]


class SeveralBody(Body):
    """Which letters: these, or all that wait, of one train or manifest where that is said."""

    ids: list[Id] | None = Field(None, max_length=MOST_AT_ONCE)
    all: bool = False
    train: Word | None = None
    manifest: Word | None = None

    def wanted(self) -> LetterFilter:
        """Give the filter of all that wait."""
        return LetterFilter(train=self.train, manifest=self.manifest)


class SeveralAcknowledgeBody(SeveralBody, AcknowledgeBody):
    """Which letters, and why no further run is needed."""


class ResolutionAnswer(BaseModel):
    """What became of letters that were to be resolved."""

    resolved: list[int] = Field(description="The letters that are resolved now.")
    jobs: list[int] = Field(description="The jobs that run again.")
    resolved_before: list[int]
    unknown: list[int]


@router.reads("", response_model=page_of(LetterSummary))
async def list_letters(
    parts: Parts, operator: CurrentOperator, query: Annotated[LetterQuery, Query()]
) -> object:
    """List letters, the newest first."""
    wanted = LetterFilter(
        status=query.status,
        train=query.train,
        manifest=query.manifest,
        before=query.before,
        limit=query.limit,
    )
    return found_page(await desk_of(parts, operator).list(wanted))


@router.reads("/{letter_id}", response_model=shape_of(LetterDetail))
async def show_letter(parts: Parts, operator: CurrentOperator, letter_id: LetterId) -> object:
    """Show one letter."""
    return await desk_of(parts, operator).show(letter_id)


@router.changes("/requeue")
async def requeue_several(parts: Parts, operator: CurrentOperator, body: SeveralBody) -> ResolutionAnswer:
    """Run the jobs of letters once more; one that was resolved before is left alone."""
    desk = desk_of(parts, operator)
    if body.all:
        return requeue_answer(await desk.requeue_all(body.wanted()))
    result = await desk.requeue(body.ids or [])
    refuse_unknown(result, body.ids or [])
    return requeue_answer(result)


@router.changes("/acknowledge")
async def acknowledge_several(
    parts: Parts, operator: CurrentOperator, body: SeveralAcknowledgeBody
) -> ResolutionAnswer:
    """Close letters without another run."""
    desk = desk_of(parts, operator)
    if body.all:
        return acknowledge_answer(await desk.acknowledge_all(body.wanted(), body.note))
    result = await desk.acknowledge(body.ids or [], body.note)
    refuse_unknown(result, body.ids or [])
    return acknowledge_answer(result)


@router.changes("/{letter_id}/requeue")
async def requeue(
    parts: Parts, operator: CurrentOperator, letter_id: LetterId, body: InputBody | None = None
) -> ResolutionAnswer:
    """Run the job of a letter once more, with its own input or another."""
    result = await desk_of(parts, operator).requeue([letter_id], input_json=input_text(body))
    refuse_unknown(result, [letter_id])
    return requeue_answer(result)


@router.changes("/{letter_id}/acknowledge")
async def acknowledge(
    parts: Parts, operator: CurrentOperator, letter_id: LetterId, body: AcknowledgeBody
) -> ResolutionAnswer:
    """Close a letter without another run."""
    result = await desk_of(parts, operator).acknowledge([letter_id], body.note)
    refuse_unknown(result, [letter_id])
    return acknowledge_answer(result)


def desk_of(parts: WebParts, operator: CurrentOperator) -> DeadLetterDesk:
    """Give the desk where letters are dealt with."""
    return DeadLetterDesk(parts.database, operator, owners=parts.owners, registry=parts.registry)


def refuse_unknown(result: RequeueResult | AcknowledgeResult, ids: Sequence[int]) -> None:
    """Refuse ids of which none is a letter of this application; of several, the answer names the others."""
    if ids and len(result.unknown) == len(ids):
        raise DeadLetterNotFoundError(ids[0])


def requeue_answer(result: RequeueResult) -> ResolutionAnswer:
    """Tell what became of letters that were to be requeued."""
    requeued: tuple[Requeued, ...] = result.requeued
    return ResolutionAnswer(
        resolved=[each.letter_id for each in requeued],
        jobs=[each.entry_id for each in requeued],
        resolved_before=list(result.resolved_before),
        unknown=list(result.unknown),
    )


def acknowledge_answer(result: AcknowledgeResult) -> ResolutionAnswer:
    """Tell what became of letters that were to be closed."""
    return ResolutionAnswer(
        resolved=list(result.acknowledged),
        jobs=[],
        resolved_before=list(result.resolved_before),
        unknown=list(result.unknown),
    )
