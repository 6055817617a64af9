"""/runs: what ran, and what came of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from gandy.desk.runs import LogEntry, RunDetail, RunInsights, RunSummary
from gandy.model.run import TrainState
from gandy.store.runs import RunFilter
from gandy.web.access.routes import Routes
from gandy.web.parts import Parts
from gandy.web.routers.shapes import HIGHEST_ID, Paged, Word, page, page_of, shape_of

router = Routes("/api/v1/runs", tag="runs")

RunId = Annotated[int, Path(ge=1, le=HIGHEST_ID)]


class RunQuery(Paged):
    """Which runs."""

    train: Word | None = None
    state: TrainState | None = None
    manifest: Word | None = None


@router.reads("", response_model=page_of(RunSummary))
async def list_runs(parts: Parts, query: Annotated[RunQuery, Query()]) -> object:
    """List runs, the newest first."""
    wanted = RunFilter(
        owner=parts.owner,
        train=query.train,
        state=query.state,
        manifest=query.manifest,
        before=query.before,
        limit=query.limit,
    )
    return page(await RunInsights(parts.database, parts.registry).list(wanted), query.limit)


@router.reads("/{run_id}", response_model=shape_of(RunDetail))
async def show_run(parts: Parts, run_id: RunId) -> object:
    """Show one run: input, output, junction timings, failure."""
    return await RunInsights(parts.database, parts.registry).show(run_id)


@router.reads("/{run_id}/logs", response_model=page_of(LogEntry))
async def show_logs(
    parts: Parts, run_id: RunId, limit: Annotated[int, Field(ge=1, le=10_000)] = 1_000
) -> object:
    """Show the lines that a run wrote, in their order."""
    return page(await RunInsights(parts.database, parts.registry).logs(run_id, limit=limit), HIGHEST_ID)
