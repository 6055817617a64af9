"""Runs: the listing, and one of them with all that is kept."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Path, Query, Request
from starlette.responses import Response

from gandy.desk.cancelling import CancelDesk
from gandy.desk.queue import QueueDesk
from gandy.errors import RunNotFoundError
from gandy.model.run import TrainState
from gandy.store.reading.listings import RunFilter
from gandy.web.access.routes import Routes
from gandy.web.pages.run_view import record_of, timeline_of, waterfall_of
from gandy.web.pages.schema_form import form_for, read_form
from gandy.web.pages.surroundings import PAGE_SIZE, Here, PageQuery
from gandy.web.parts import CurrentOperator, Parts
from gandy.web.routers.runs import insights_of
from gandy.web.routers.shapes import HIGHEST_ID, Text, Word

router = Routes("/runs")

RunId = Annotated[int, Path(ge=1, le=HIGHEST_ID)]
_LOG_LINES = 1_000


class RunPageQuery(PageQuery):
    """Which runs."""

    state: TrainState | None = None
    train: Word | None = None
    manifest: Word | None = None


@router.reads("")
async def list_runs(parts: Parts, here: Here, query: Annotated[RunPageQuery, Query()]) -> Response:
    """List runs, the newest first."""
    wanted = RunFilter(
        train=query.train,
        state=query.state,
        manifest=query.manifest,
        before=query.before,
        limit=PAGE_SIZE,
    )
    runs = await insights_of(parts).list(wanted)
    path = here.link("/runs")
    return here.page(
        "runs.html",
        runs=runs,
        query=query,
        states=list(TrainState),
        trains=parts.registry.names,
        is_filtered=query.is_filtered,
        newest=query.address(path) if query.before else None,
        older=query.address(path, before=runs.next) if runs.next else None,
    )


@router.reads("/{run_id}")
async def show_run(parts: Parts, here: Here, run_id: RunId) -> Response:
    """Show one run."""
    insights = insights_of(parts)
    run = await insights.show(run_id)
    logs = await insights.logs(run_id, limit=_LOG_LINES)
    is_known = run.train in parts.registry
    return here.page(
        "run.html",
        run=run,
        logs=logs,
        logs_cut=len(logs) == _LOG_LINES,
        timeline=timeline_of(run),
        waterfall=waterfall_of(run),
        record=record_of(run),
        can_rerun=is_known and run.end_time is not None,
        form=form_for(parts.registry.get(run.train), run.input) if is_known else None,
    )


@router.changes("/{run_id}/cancel")
async def cancel_run(parts: Parts, operator: CurrentOperator, here: Here, run_id: RunId) -> Response:
    """Cancel a run, wherever it stands."""
    desk = CancelDesk(parts.database, operator, parts.settings, owners=parts.owners)
    result = await desk.jobs([run_id])
    if result.unknown:
        raise RunNotFoundError(run_id)
    said = "is cancelled" if result.cancelled else "is asked to stop" if result.asked else "was over already"
    return here.done(f"/runs/{run_id}", f"Run {run_id} {said}.")


@router.changes("/{run_id}/fail")
async def fail_run(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    run_id: RunId,
    reason: Annotated[Text | None, Form()] = None,
) -> Response:
    """End a run by hand, whatever process holds it."""
    desk = CancelDesk(parts.database, operator, parts.settings, owners=parts.owners)
    failed = await desk.fail(run_id, reason or None)
    follows = "" if failed.next_attempt is None else f" Its next attempt is {failed.next_attempt}."
    return here.done(f"/runs/{run_id}", f"Run {run_id} is {failed.state}.{follows}")


@router.changes("/{run_id}/rerun")
async def rerun(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    request: Request,
    run_id: RunId,
    input_json: Annotated[str | None, Form()] = None,
) -> Response:
    """Run it once more with the input of the form."""
    run = await insights_of(parts).show(run_id)
    text = (
        read_form(parts.registry.get(run.train), await request.form()) if input_json is None else input_json
    )
    again = await QueueDesk(parts.database, operator, owners=parts.owners).rerun(
        run_id, input_json=text, registry=parts.registry
    )
    return here.done("/queue", f"Run {run_id} is queued again as {again.id}.")
