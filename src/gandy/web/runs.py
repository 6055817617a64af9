"""Runs: REST interface and pages."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Annotated, ClassVar, Final

from fastapi import Form, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from gandy.context import Context
from gandy.desk.cancelling import LiveState
from gandy.desk.choosing.rerunning import EndedState, RerunDesk
from gandy.desk.entries import EntryDetail
from gandy.desk.jobs import read_story
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import LogEntry, RunDetail, RunInsights, RunSummary
from gandy.errors import RunNotFoundError, RunNotStartedError
from gandy.model.owners import Operator
from gandy.model.run import TrainState
from gandy.store.drivers.database import ReadingRunner
from gandy.store.reading.listings import RunFilter, RunSort
from gandy.store.reaping import FailedRun
from gandy.web.access.routes import Routes
from gandy.web.bodies import (
    HIGHEST_ID,
    Body,
    CancelAnswer,
    InputBody,
    JobAnswer,
    LookedAtAnswer,
    OncePerKey,
    Text,
    found_page,
    input_text,
    page,
    page_of,
    shape_of,
)
from gandy.web.choosing.filters import ChosenBody, ChosenPageQuery, ChosenQuery, PreviewAnswer, sorts
from gandy.web.dependencies import CurrentContext, CurrentOperator, cancel_desk
from gandy.web.queue import desk_of
from gandy.web.rendering import span
from gandy.web.surroundings import PAGE_SIZE, Here, form_for, read_form

router = Routes("/api/v1/runs", tag="runs")

RunId = Annotated[int, Path(ge=1, le=HIGHEST_ID)]


class RunQuery(ChosenQuery):
    """Filter of runs."""

    state: TrainState | None = None
    sort: RunSort = Field("id", description="The newest first; `start_time` needs `train` and one owner.")


class SeveralRunsBody(ChosenBody):
    """The runs to cancel: these ids, or those that have not ended and match a filter."""

    state: LiveState | None = None


class RerunBody(ChosenBody):
    """The runs to repeat: these ids, or those that have ended and match a filter."""

    state: EndedState | None = None


class RepeatedRun(BaseModel):
    """A run that is queued again; the id is the new run's."""

    id: int
    repeats: int
    train: str


class RerunAnswer(LookedAtAnswer):
    """The result of repeating several runs."""

    rerun: list[RepeatedRun]
    not_over: list[int] = Field(description="Runs that have not ended.")
    unknown: list[int] = Field(description="Ids of no run of this application.")


class FailBody(Body):
    """Why a run is failed manually."""

    reason: Text | None = None


@router.reads("", response_model=page_of(RunSummary))
async def list_runs(context: CurrentContext, query: Annotated[RunQuery, Query()]) -> object:
    """List runs, the newest first."""
    wanted = RunFilter(
        state=query.state, sort=query.sort, before=query.before, limit=query.limit, **query.common()
    )
    return found_page(await insights_of(context).list(wanted))


@router.changes("/cancel")
async def cancel_several(
    context: CurrentContext, operator: CurrentOperator, body: SeveralRunsBody
) -> CancelAnswer | PreviewAnswer:
    """Cancel runs, started or not: these, or all that match a filter; they are not retried."""
    desk = cancel_desk(context, operator)
    ids, wanted = body.ids or [], RunFilter(state=body.state, **body.common())
    if body.preview:
        return PreviewAnswer.of(await desk.preview_runs(wanted))
    result = await desk.runs(ids, wanted)
    if ids and len(result.unknown) == len(ids):
        raise RunNotFoundError(ids[0])
    return CancelAnswer.of(result)


@router.changes("/rerun")
async def rerun_several(
    context: CurrentContext, operator: CurrentOperator, body: RerunBody
) -> RerunAnswer | PreviewAnswer:
    """Queue finished runs again with their own inputs: these, or all that match a filter."""
    desk = rerun_desk(context, operator)
    ids, wanted = body.ids or [], RunFilter(state=body.state, **body.common())
    if body.preview:
        return PreviewAnswer.of(await desk.preview(wanted))
    result = await desk.runs(ids, wanted)
    if ids and len(result.unknown) == len(ids):
        raise RunNotFoundError(ids[0])
    return RerunAnswer.model_validate(result, from_attributes=True)


@router.reads("/{run_id}", response_model=shape_of(RunDetail) | shape_of(EntryDetail))
async def show_run(context: CurrentContext, operator: CurrentOperator, run_id: RunId) -> object:
    """Show one run: input, output, junction timings, failure; or its entry, if it has not started."""
    try:
        return await insights_of(context).show(run_id)
    except RunNotStartedError:
        return await desk_of(context, operator).show(run_id)


@router.reads("/{run_id}/logs", response_model=page_of(LogEntry))
async def show_logs(
    context: CurrentContext, run_id: RunId, limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000
) -> object:
    """Show the log lines of a run, in order."""
    return page(await insights_of(context).logs(run_id, limit=limit), HIGHEST_ID)


@router.changes("/{run_id}/cancel")
async def cancel_run(context: CurrentContext, operator: CurrentOperator, run_id: RunId) -> CancelAnswer:
    """Cancel a run, started or not; a second request changes nothing."""
    result = await cancel_desk(context, operator).jobs([run_id])
    if result.unknown:
        raise RunNotFoundError(run_id)
    return CancelAnswer.of(result)


@router.changes("/{run_id}/fail", response_model=shape_of(FailedRun))
async def fail_run(
    context: CurrentContext, operator: CurrentOperator, run_id: RunId, body: FailBody | None = None
) -> object:
    """Fail a run manually; this does not count as a failed attempt, and the job's retry rules apply."""
    return await cancel_desk(context, operator).fail(run_id, None if body is None else body.reason)


@router.changes("/{run_id}/rerun")
async def rerun(
    context: CurrentContext,
    operator: CurrentOperator,
    once: OncePerKey,
    run_id: RunId,
    body: InputBody | None = None,
) -> JobAnswer:
    """Queue a finished run again, with its own or another input."""
    text = input_text(body)

    async def make(database: ReadingRunner) -> JobAnswer:
        again = await QueueDesk(database, operator, owners=context.owners).rerun(
            run_id, input_json=text, registry=context.registry
        )
        return JobAnswer(id=again.id, is_new=True)

    return await once.job(make)


def rerun_desk(context: Context, operator: Operator) -> RerunDesk:
    """Return the desk that repeats many runs."""
    return RerunDesk(context.database, operator, owners=context.owners, registry=context.registry)


def insights_of(context: Context) -> RunInsights:
    """Return the reader of runs."""
    return RunInsights(context.database, context.owners, context.registry)


_THINNEST: Final = 0.6  # percent: keeps very short junctions visible


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One event in the timeline of a run."""

    name: str
    at: datetime | None
    note: str = ""
    kind: str = "is-done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One junction; position and width in percent of the run."""

    junction: str
    started: timedelta
    took: timedelta
    left: float
    width: float
    is_failed: bool


def timeline_of(run: RunDetail) -> list[TimelineStep]:
    """Return the events of a run in order."""
    steps = [] if run.due_at is None else [TimelineStep("Due", run.due_at)]
    steps.append(TimelineStep("Queued" if run.state == TrainState.PENDING else "Dispatched", run.created_at))
    if run.state != TrainState.PENDING:
        waited = run.start_time - (run.due_at or run.created_at)
        steps.append(TimelineStep("Started", run.start_time, f"after {span(max(waited, timedelta(0)))}"))
    if run.end_time is None:
        steps.append(TimelineStep("Ends", None, "still running", ""))
    else:
        note = f"took {span(run.took)}"
        if run.cancellation_reason:
            note += f"; cancelled by {run.cancellation_reason}"
        steps.append(TimelineStep(run.state.capitalize(), run.end_time, note, f"is-{run.state}"))
    return steps


def waterfall_of(run: RunDetail) -> list[Bar]:
    """Return one bar per junction, positioned by its start; the scale is that of the run."""
    ends = (each.started + each.took for each in run.junctions)
    whole = max(*ends, run.took or timedelta(0), timedelta(microseconds=1))
    return [
        Bar(
            junction=each.junction,
            started=each.started,
            took=each.took,
            left=round(min(100 * (each.started / whole), 100 - _THINNEST), 2),
            width=round(max(100 * (each.took / whole), _THINNEST), 2),
            is_failed=each.junction == run.failure_junction,
        )
        for each in run.junctions
    ]


#: What the page shows in a place of its own; the end of the timeline says who cancelled.
_SHOWN_ELSEWHERE: Final = frozenset(
    (
        "train", "state", "manifest", "parent_id", "origin", "attempt", "due_at", "created_at", "start_time",
        "end_time", "took", "input", "output", "junctions", "currently_running_junction", "progress_done",
        "progress_total", "failure_junction", "failure_exception", "failure_reason", "stack_trace",
        "cancellation_requested",
    )
)  # fmt: skip


def record_of(run: RunDetail) -> list[tuple[str, object]]:
    """Return the values that the page does not show elsewhere, each under its name."""
    return [
        (field.name.replace("_", " ").capitalize(), getattr(run, field.name))
        for field in fields(run)
        if field.name not in _SHOWN_ELSEWHERE
    ]


pages = Routes("/runs")

PageRunId = Annotated[int, Path(ge=1, le=HIGHEST_ID)]
_LOG_LINES = 1_000


class RunPageQuery(ChosenPageQuery):
    """Filter of runs."""

    beside_filters: ClassVar[frozenset[str]] = frozenset({"before", "sort", "own"})

    state: TrainState | None = None
    sort: RunSort | None = None
    own: bool | None = None  #: Gandy's own trains too

    @property
    def can_have_own(self) -> bool:
        """Whether runs of Gandy's own trains, which have no manifest, match the filters unnamed."""
        return self.train is None and self.manifest is None

    def switched(self, path: str) -> str:
        """Return the URL of the same list with or without Gandy's own trains."""
        return self.model_copy(update={"own": None if self.own else True}).address(path)


@pages.reads("")
async def list_runs_page(
    context: CurrentContext, here: Here, query: Annotated[RunPageQuery, Query()]
) -> Response:
    """List runs, the newest first."""
    served = {"id": True, "start_time": query.train is not None}
    sort: RunSort = query.sort if query.sort and served[query.sort] else "id"
    wanted = RunFilter(state=query.state, sort=sort, before=query.before, limit=PAGE_SIZE, **query.common())
    runs = await insights_of(context).list(wanted, with_own=bool(query.own) or not query.can_have_own)
    path = here.link("/runs")
    return here.page(
        "runs.html",
        runs=runs,
        query=query,
        states=list(TrainState),
        trains=context.registry.names,
        is_filtered=query.is_filtered,
        switched=query.switched(path) if query.can_have_own else None,
        sort=sort,
        sorts=sorts(query, path, served),
        newest=query.address(path) if query.before else None,
        older=query.address(path, before=runs.next) if runs.next else None,
    )


@pages.reads("/{run_id}")
async def show_run_page(context: CurrentContext, here: Here, run_id: PageRunId) -> Response:
    """Show one run."""
    insights = insights_of(context)
    try:
        run = await insights.show(run_id)
    except RunNotStartedError:
        return here.moved(f"/queue/{run_id}")
    logs = await insights.logs(run_id, limit=_LOG_LINES)
    is_known = run.train in context.registry
    return here.page(
        "run.html",
        run=run,
        logs=logs,
        logs_cut=len(logs) == _LOG_LINES,
        timeline=timeline_of(run),
        waterfall=waterfall_of(run),
        record=record_of(run),
        story=await read_story(context.database, run_id, context.owners),
        can_rerun=is_known and run.end_time is not None,
        form=form_for(context.registry.get(run.train), run.input) if is_known else None,
    )


@pages.changes("/{run_id}/cancel")
async def cancel_run_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, run_id: PageRunId
) -> Response:
    """Cancel a run, started or not."""
    result = await cancel_desk(context, operator).jobs([run_id])
    if result.unknown:
        raise RunNotFoundError(run_id)
    said = "is cancelled" if result.cancelled else "is asked to stop" if result.asked else "had already ended"
    return here.done(f"/runs/{run_id}", f"Run {run_id} {said}.")


@pages.changes("/{run_id}/fail")
async def fail_run_page(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    run_id: PageRunId,
    reason: Annotated[Text | None, Form()] = None,
) -> Response:
    """Fail a run manually, whichever process executes it."""
    failed = await cancel_desk(context, operator).fail(run_id, reason or None)
    follows = "" if failed.next_attempt is None else f" Its next attempt is {failed.next_attempt}."
    return here.done(f"/runs/{run_id}", f"Run {run_id} is {failed.state}.{follows}")


@pages.changes("/{run_id}/rerun")
async def rerun_page(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    request: Request,
    run_id: PageRunId,
    input_json: Annotated[str | None, Form()] = None,
) -> Response:
    """Queue it again with the input of the form."""
    run = await insights_of(context).show(run_id)
    text = (
        read_form(context.registry.get(run.train), await request.form()) if input_json is None else input_json
    )
    again = await QueueDesk(context.database, operator, owners=context.owners).rerun(
        run_id, input_json=text, registry=context.registry
    )
    return here.done("/queue", f"Run {run_id} is queued again as {again.id}.")
