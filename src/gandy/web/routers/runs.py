"""/runs: what ran, and what came of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from gandy.desk.cancelling import CancelDesk
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import LogEntry, RunDetail, RunInsights, RunSummary
from gandy.errors import RunNotFoundError
from gandy.model.run import TrainState
from gandy.store.drivers.database import ReadingRunner
from gandy.store.reading.listings import RunFilter
from gandy.store.reaping import FailedRun
from gandy.web.access.routes import Routes
from gandy.web.parts import CurrentOperator, Parts, WebParts
from gandy.web.routers.bodies import CancelAnswer, InputBody, input_text
from gandy.web.routers.repeating import JobAnswer, OncePerKey
from gandy.web.routers.shapes import HIGHEST_ID, Body, Paged, Text, Word, found_page, page, page_of, shape_of

router = Routes("/api/v1/runs", tag="runs")

RunId = Annotated[int, Path(ge=1, le=HIGHEST_ID)]


class RunQuery(Paged):
    """Which runs."""

    train: Word | None = None
    state: TrainState | None = None
    manifest: Word | None = None


class FailBody(Body):
    """Why a run is ended by hand."""

    reason: Text | None = None


@router.reads("", response_model=page_of(RunSummary))
async def list_runs(parts: Parts, query: Annotated[RunQuery, Query()]) -> object:
    """List runs, the newest first."""
    wanted = RunFilter(
        train=query.train,
        state=query.state,
        manifest=query.manifest,
        before=query.before,
        limit=query.limit,
    )
    return found_page(await insights_of(parts).list(wanted))


@router.reads("/{run_id}", response_model=shape_of(RunDetail))
async def show_run(parts: Parts, run_id: RunId) -> object:
    """Show one run: input, output, junction timings, failure."""
    return await insights_of(parts).show(run_id)


@router.reads("/{run_id}/logs", response_model=page_of(LogEntry))
async def show_logs(
    parts: Parts, run_id: RunId, limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000
) -> object:
    """Show the lines that a run wrote, in their order."""
    return page(await insights_of(parts).logs(run_id, limit=limit), HIGHEST_ID)


@router.changes("/{run_id}/cancel")
async def cancel_run(parts: Parts, operator: CurrentOperator, run_id: RunId) -> CancelAnswer:
    """Cancel a run, wherever it stands; asking twice changes nothing more."""
    desk = CancelDesk(parts.database, operator, parts.settings, owners=parts.owners)
    result = await desk.jobs([run_id])
    if result.unknown:
        raise RunNotFoundError(run_id)
    return CancelAnswer.of(result)


@router.changes("/{run_id}/fail", response_model=shape_of(FailedRun))
async def fail_run(
    parts: Parts, operator: CurrentOperator, run_id: RunId, body: FailBody | None = None
) -> object:
    """End a run by hand, whatever holds it; not counted, its next attempt as the job's rules say."""
    desk = CancelDesk(parts.database, operator, parts.settings, owners=parts.owners)
    return await desk.fail(run_id, None if body is None else body.reason)


@router.changes("/{run_id}/rerun")
async def rerun(
    parts: Parts, operator: CurrentOperator, once: OncePerKey, run_id: RunId, body: InputBody | None = None
) -> JobAnswer:
    """Run what is over once more, with its own input or another."""
    text = input_text(body)

    async def make(database: ReadingRunner) -> JobAnswer:
        again = await QueueDesk(database, operator, owners=parts.owners).rerun(
            run_id, input_json=text, registry=parts.registry
        )
        return JobAnswer(id=again.id, is_new=True)

    return await once.job(make)


def insights_of(parts: WebParts) -> RunInsights:
    """Give the desk where runs are read."""
    return RunInsights(parts.database, parts.owners, parts.registry)
