"""`app.queue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from gandy.app.verbs.face import Face, Verb, Verbs
from gandy.app.verbs.values import NOT_GIVEN, cancel_desk, chosen, input_json, known_train
from gandy.desk.queue import EnqueueOptions, QueueDesk
from gandy.settings.bounds import check
from gandy.store.reading.listings import EntryFilter

if TYPE_CHECKING:
    from typing import Literal

    from gandy.app.keywords import AnyTrain, FilterKeywords, JobKeywords
    from gandy.desk.audit import Listed
    from gandy.desk.cancelling import UndispatchedStatus
    from gandy.desk.entries import EntryDetail, EntryExplanation, EntrySummary
    from gandy.desk.queue import QueuedJob
    from gandy.store.cancelling import CancelResult
    from gandy.store.reading.listings import EntrySort, Gate, WantedStatus


class QueueVerbs(Verbs[Face]):
    """The verbs of `gandy queue`."""

    noun = "queue"

    @Verb
    async def list(
        self,
        *,
        status: WantedStatus | Literal["all"] = "undispatched",
        gate: Gate | None = None,
        sort: EntrySort = "id",
        before: int | None = None,
        limit: int = 50,
        **filters: Unpack[FilterKeywords],
    ) -> Listed[EntrySummary]:
        """List entries, the newest first; `next` of the result is the `before` of the next page."""
        check("entry_status", status, called="status")
        check("entry_sort", sort, called="sort")
        wanted = EntryFilter(
            status=None if status == "all" else status,
            gate=gate,
            sort=sort,
            before=before,
            limit=limit,
            **chosen(self._context, filters),
        )
        return await self._desk(None).list(wanted)

    @Verb
    async def show(self, entry_id: int) -> EntryDetail:
        """Show one entry with its input, and what it waits for."""
        return await self._desk(None).show(entry_id)

    @Verb
    async def explain(self, entry_id: int) -> EntryExplanation:
        """Explain why a job has not started: every condition, and what to do."""
        return await self._desk(None).explain(entry_id)

    @Verb
    async def enqueue(
        self,
        train: AnyTrain | str,
        input: object = NOT_GIVEN,
        *,
        as_operator: str | None = None,
        **options: Unpack[JobKeywords],
    ) -> QueuedJob:
        """Queue one job with an entry in the audit trail; `app.enqueue` is for the application itself."""
        definition = known_train(self._context, train)
        text, given = input_json(input, of=definition.name), EnqueueOptions(**options)
        return await self._desk(as_operator).enqueue(
            definition.name, text, given, registry=self._context.registry
        )

    @Verb
    async def cancel(
        self,
        *ids: int,
        status: UndispatchedStatus | None = None,
        gate: Gate | None = None,
        before: int | None = None,
        as_operator: str | None = None,
        **filters: Unpack[FilterKeywords],
    ) -> CancelResult:
        """Cancel entries: these, or all undispatched ones that match a filter.

        A search in texts ends after 10,000 rows: `next` of the result is the `before` that continues it.
        """
        wanted = EntryFilter(status=status, gate=gate, before=before, **chosen(self._context, filters))
        return await cancel_desk(self._context, self._operator(as_operator)).entries(ids, wanted)

    @Verb
    async def preview_cancel(
        self,
        *,
        status: UndispatchedStatus | None = None,
        gate: Gate | None = None,
        before: int | None = None,
        **filters: Unpack[FilterKeywords],
    ) -> Listed[int]:
        """Return the entries that `cancel` would touch by this filter."""
        wanted = EntryFilter(status=status, gate=gate, before=before, **chosen(self._context, filters))
        return await cancel_desk(self._context, self._operator(None)).find_entries(wanted)

    def _desk(self, as_operator: str | None) -> QueueDesk:
        context = self._context
        return QueueDesk(
            context.database,
            self._operator(as_operator),
            owners=context.owners,
            registry=context.registry,
            settings=context.settings,
        )
