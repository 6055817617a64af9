"""`app.runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.app.verbs.face import Face, Verb, Verbs
from gandy.app.verbs.values import NOT_GIVEN, cancel_desk, input_json, train_name
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import RunInsights
from gandy.store.reading.listings import RunFilter

if TYPE_CHECKING:
    from gandy.app.keywords import AnyTrain, RunState
    from gandy.desk.audit import Listed
    from gandy.desk.cancelling import LiveState
    from gandy.desk.runs import LogEntry, RunDetail, RunSummary
    from gandy.store.cancelling import CancelResult
    from gandy.store.reading.listings import Rerun
    from gandy.store.reaping import FailedRun


class RunVerbs(Verbs[Face]):
    """The verbs of `gandy runs`."""

    noun = "runs"

    @Verb
    async def list(
        self,
        *,
        train: AnyTrain | str | None = None,
        state: RunState | None = None,
        manifest: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Listed[RunSummary]:
        """List runs, Gandy's own among them, the newest first; `next` is the `before` of the next page."""
        name = train_name(self._context, train)
        wanted = RunFilter(train=name, state=state, manifest=manifest, before=before, limit=limit)
        return await self._insights.list(wanted)

    @Verb
    async def show(self, run_id: int) -> RunDetail:
        """Show one run: input, output, junction timings, failure."""
        return await self._insights.show(run_id)

    @Verb
    async def logs(self, run_id: int, *, limit: int = 1_000) -> tuple[LogEntry, ...]:
        """Return the lines that a run wrote, in order."""
        return await self._insights.logs(run_id, limit=limit)

    @Verb
    async def cancel(
        self,
        *ids: int,
        train: AnyTrain | str | None = None,
        state: LiveState | None = None,
        manifest: str | None = None,
        as_operator: str | None = None,
    ) -> CancelResult:
        """Cancel runs, started or not: these, or all that match a filter; they are not retried."""
        wanted = RunFilter(train=train_name(self._context, train), state=state, manifest=manifest)
        return await cancel_desk(self._context, self._operator(as_operator)).runs(ids, wanted)

    @Verb
    async def preview_cancel(
        self,
        *,
        train: AnyTrain | str | None = None,
        state: LiveState | None = None,
        manifest: str | None = None,
    ) -> tuple[int, ...]:
        """Return the runs that `cancel` would touch by this filter."""
        wanted = RunFilter(train=train_name(self._context, train), state=state, manifest=manifest)
        return await cancel_desk(self._context, self._operator(None)).preview_runs(wanted)

    @Verb
    async def fail(
        self, run_id: int, *, reason: str | None = None, as_operator: str | None = None
    ) -> FailedRun:
        """Fail a run manually; this does not count as a failed attempt, and the job's retry rules apply."""
        return await cancel_desk(self._context, self._operator(as_operator)).fail(run_id, reason)

    @Verb
    async def rerun(self, run_id: int, *, input: object = NOT_GIVEN, as_operator: str | None = None) -> Rerun:
        """Queue a finished run again, with its own or another input; it belongs to no manifest."""
        context, text = self._context, input_json(input, of=f"of run {run_id}")
        desk = QueueDesk(context.database, self._operator(as_operator), owners=context.owners)
        return await desk.rerun(run_id, input_json=text, registry=context.registry)

    @property
    def _insights(self) -> RunInsights:
        context = self._context
        return RunInsights(context.database, context.owners, context.registry)
