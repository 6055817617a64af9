"""`app.dead_letters`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from gandy.app.verbs.face import Face, Verb, Verbs
from gandy.app.verbs.values import NOT_GIVEN, chosen, input_json
from gandy.desk.choosing.walks import refuse_unclear_letters
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.settings.bounds import check
from gandy.store.reading.listings import LetterFilter

if TYPE_CHECKING:
    from typing import Literal

    from gandy.app.keywords import FilterKeywords
    from gandy.desk.audit import Listed
    from gandy.desk.dead_letters import LetterDetail, LetterSummary
    from gandy.store.letters import AcknowledgeResult, RequeueResult
    from gandy.store.reading.listings import LetterSort, LetterStatus


class DeadLetterVerbs(Verbs[Face]):
    """The verbs of `gandy dead-letters`."""

    noun = "dead_letters"

    @Verb
    async def list(
        self,
        *,
        status: LetterStatus | Literal["all"] = "awaiting_intervention",
        sort: LetterSort = "id",
        before: int | None = None,
        limit: int = 50,
        **filters: Unpack[FilterKeywords],
    ) -> Listed[LetterSummary]:
        """List dead letters, the newest first; `next` of the result is the `before` of the next page."""
        check("letter_status", status, called="status")
        check("letter_sort", sort, called="sort")
        wanted = LetterFilter(
            status=None if status == "all" else status,
            sort=sort,
            before=before,
            limit=limit,
            **chosen(self._context, filters),
        )
        return await self._desk(None).list(wanted)

    @Verb
    async def show(self, letter_id: int) -> LetterDetail:
        """Show one dead letter: the failure, the input and the resolution."""
        return await self._desk(None).show(letter_id)

    @Verb
    async def requeue(
        self,
        *ids: int,
        all: bool = False,  # noqa: A002 - the word of the command line
        input: object = NOT_GIVEN,
        before: int | None = None,
        as_operator: str | None = None,
        **filters: Unpack[FilterKeywords],
    ) -> RequeueResult:
        """Queue the jobs of dead letters again: these, or all unresolved ones that match a filter.

        A search in texts ends after 10,000 rows: `next` of the result is the `before` that continues it.
        """
        wanted = self._wanted(filters, before)
        refuse_unclear_letters(ids, wanted, everything=all)
        desk, text = self._desk(as_operator), input_json(input, of="of the letters")
        if all:
            return await desk.requeue_all(wanted, input_json=text)
        return await desk.requeue(ids, input_json=text)

    @Verb
    async def preview_requeue(
        self, *, before: int | None = None, **filters: Unpack[FilterKeywords]
    ) -> Listed[int]:
        """Return the letters that `requeue(all=True)` would resolve by this filter."""
        return await self._desk(None).find_awaiting(self._wanted(filters, before))

    @Verb
    async def acknowledge(
        self,
        *ids: int,
        note: str,
        all: bool = False,  # noqa: A002 - the word of the command line
        before: int | None = None,
        as_operator: str | None = None,
        **filters: Unpack[FilterKeywords],
    ) -> AcknowledgeResult:
        """Close dead letters without another run: these, or all unresolved ones that match a filter.

        A search in texts ends after 10,000 rows: `next` of the result is the `before` that continues it.
        """
        wanted = self._wanted(filters, before)
        refuse_unclear_letters(ids, wanted, everything=all)
        desk = self._desk(as_operator)
        return await (desk.acknowledge_all(wanted, note) if all else desk.acknowledge(ids, note))

    @Verb
    async def preview_acknowledge(
        self, *, before: int | None = None, **filters: Unpack[FilterKeywords]
    ) -> Listed[int]:
        """Return the letters that `acknowledge(all=True)` would resolve by this filter."""
        return await self._desk(None).find_awaiting(self._wanted(filters, before))

    def _wanted(self, filters: FilterKeywords, before: int | None) -> LetterFilter:
        return LetterFilter(before=before, **chosen(self._context, filters))

    def _desk(self, as_operator: str | None) -> DeadLetterDesk:
        context = self._context
        return DeadLetterDesk(
            context.database, self._operator(as_operator), owners=context.owners, registry=context.registry
        )
