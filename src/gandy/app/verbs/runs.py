"""`app.runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from gandy.app.verbs.face import Face, Verb, Verbs
from gandy.app.verbs.values import NOT_GIVEN, cancel_desk, chosen, input_json
from gandy.desk.choosing.rerunning import RerunDesk
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import RunInsights
from gandy.settings.bounds import check
from gandy.store.reading.listings import RunFilter

if TYPE_CHECKING:
    from gandy.app.keywords import FilterKeywords, RunState
    from gandy.desk.audit import Listed
    from gandy.desk.cancelling import LiveState
    from gandy.desk.choosing.rerunning import EndedState
    from gandy.desk.runs import LogEntry, RunDetail, RunSummary
    from gandy.store.cancelling import CancelResult
    from gandy.store.reading.listings import Rerun, RerunResult, RunSort
    from gandy.store.reaping import FailedRun


class RunVerbs(Verbs[Face]):
    """The verbs of `gandy runs`."""

    noun = "runs"

    @Verb
    async def list(
        self,
        *,
        state: RunState | None = None,
        sort: RunSort = "id",
        before: int | None = None,
        limit: int = 50,
        **filters: Unpack[FilterKeywords],
    ) -> Listed[RunSummary]:
        """List runs, Gandy's own among them, the newest first; `next` is the `before` of the next page."""
        check("run_sort", sort, called="sort")
        given = chosen(self._context, filters)
        wanted = RunFilter(state=state, sort=sort, before=before, limit=limit, **given)
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
        state: LiveState | None = None,
        before: int | None = None,
        as_operator: str | None = None,
        **filters: Unpack[FilterKeywords],
    ) -> CancelResult:
        """Cancel runs, started or not: these, or all that match a filter; they are not retried.

        A search in texts ends after 10,000 rows: `next` of the result is the `before` that continues it.
        """
        wanted = RunFilter(state=state, before=before, **chosen(self._context, filters))
        return await cancel_desk(self._context, self._operator(as_operator)).runs(ids, wanted)

    @Verb
    async def preview_cancel(
        self,
        *,
        state: LiveState | None = None,
        before: int | None = None,
        **filters: Unpack[FilterKeywords],
    ) -> Listed[int]:
        """Return the runs that `cancel` would touch by this filter."""
        wanted = RunFilter(state=state, before=before, **chosen(self._context, filters))
        return await cancel_desk(self._context, self._operator(None)).find_runs(wanted)

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

    @Verb
    async def rerun_many(
        self,
        *ids: int,
        state: EndedState | None = None,
        before: int | None = None,
        as_operator: str | None = None,
        **filters: Unpack[FilterKeywords],
    ) -> RerunResult:
        """Queue finished runs again with their own inputs: these, or all that match a filter.

        A search in texts ends after 10,000 rows: `next` of the result is the `before` that continues it.
        """
        wanted = RunFilter(state=state, before=before, **chosen(self._context, filters))
        return await self._rerun_desk(as_operator).runs(ids, wanted)

    @Verb
    async def preview_rerun_many(
        self,
        *,
        state: EndedState | None = None,
        before: int | None = None,
        **filters: Unpack[FilterKeywords],
    ) -> Listed[int]:
        """Return the runs that `rerun_many` would repeat by this filter."""
        wanted = RunFilter(state=state, before=before, **chosen(self._context, filters))
        return await self._rerun_desk(None).find(wanted)

    def _rerun_desk(self, as_operator: str | None) -> RerunDesk:
        context = self._context
        return RerunDesk(
            context.database, self._operator(as_operator), owners=context.owners, registry=context.registry
        )

    @property
    def _insights(self) -> RunInsights:
        context = self._context
        return RunInsights(context.database, context.owners, context.registry)
