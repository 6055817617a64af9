"""`app.dead_letters`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.app.verbs.face import Face, Verb, Verbs
from gandy.app.verbs.values import NOT_GIVEN, input_json, train_name
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.errors import ValueBoundsError
from gandy.settings.bounds import check
from gandy.store.reading.listings import LetterFilter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from gandy.app.keywords import AnyTrain
    from gandy.desk.audit import Listed
    from gandy.desk.dead_letters import LetterDetail, LetterSummary
    from gandy.store.letters import AcknowledgeResult, RequeueResult
    from gandy.store.reading.listings import LetterStatus


class DeadLetterVerbs(Verbs[Face]):
    """The verbs of `gandy dead-letters`."""

    noun = "dead_letters"

    @Verb
    async def list(
        self,
        *,
        status: LetterStatus | Literal["all"] = "awaiting_intervention",
        train: AnyTrain | str | None = None,
        manifest: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Listed[LetterSummary]:
        """List dead letters, the newest first; `next` of the result is the `before` of the next page."""
        check("letter_status", status, called="status")
        wanted = LetterFilter(
            status=None if status == "all" else status,
            train=train_name(self._context, train),
            manifest=manifest,
            before=before,
            limit=limit,
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
        train: AnyTrain | str | None = None,
        manifest: str | None = None,
        input: object = NOT_GIVEN,
        as_operator: str | None = None,
    ) -> RequeueResult:
        """Queue the jobs of dead letters again: these, or all unresolved ones, of a train or a manifest."""
        wanted = self._wanted(train, manifest)
        _refuse_unclear(ids, wanted, everything=all)
        desk, text = self._desk(as_operator), input_json(input, of="of the letters")
        if all:
            return await desk.requeue_all(wanted, input_json=text)
        return await desk.requeue(ids, input_json=text)

    @Verb
    async def preview_requeue(
        self, *, train: AnyTrain | str | None = None, manifest: str | None = None
    ) -> tuple[int, ...]:
        """Return the letters that `requeue(all=True)` would resolve by this filter."""
        return await self._desk(None).preview_awaiting(self._wanted(train, manifest))

    @Verb
    async def acknowledge(
        self,
        *ids: int,
        note: str,
        all: bool = False,  # noqa: A002 - the word of the command line
        train: AnyTrain | str | None = None,
        manifest: str | None = None,
        as_operator: str | None = None,
    ) -> AcknowledgeResult:
        """Close dead letters without another run: these, or all unresolved ones, of a train or a manifest."""
        wanted = self._wanted(train, manifest)
        _refuse_unclear(ids, wanted, everything=all)
        desk = self._desk(as_operator)
        return await (desk.acknowledge_all(wanted, note) if all else desk.acknowledge(ids, note))

    @Verb
    async def preview_acknowledge(
        self, *, train: AnyTrain | str | None = None, manifest: str | None = None
    ) -> tuple[int, ...]:
        """Return the letters that `acknowledge(all=True)` would resolve by this filter."""
        return await self._desk(None).preview_awaiting(self._wanted(train, manifest))

    def _wanted(self, train: AnyTrain | str | None, manifest: str | None) -> LetterFilter:
        return LetterFilter(train=train_name(self._context, train), manifest=manifest)

    def _desk(self, as_operator: str | None) -> DeadLetterDesk:
        context = self._context
        return DeadLetterDesk(
            context.database, self._operator(as_operator), owners=context.owners, registry=context.registry
        )


def _refuse_unclear(ids: Sequence[int], wanted: LetterFilter, *, everything: bool) -> None:
    """Refuse a call that could mean other letters than the caller thinks."""
    if bool(ids) == everything:
        given = "both" if ids else "nothing"
        raise ValueBoundsError("dead letters", "chosen by ids, or by all=True", f"by {given}")
    if ids and (wanted.train or wanted.manifest):
        raise ValueBoundsError("train and manifest", "given with all=True", "with ids")
