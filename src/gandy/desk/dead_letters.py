"""Read and resolve dead letters: one, many or all; every resolution is in the audit trail."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime  # noqa: TC003 the web interface reads annotations at run time
from typing import TYPE_CHECKING

from gandy.desk.audit import Listed, shown
from gandy.desk.choosing.names import find_unknown
from gandy.desk.choosing.texts import LETTERS, search_listing
from gandy.desk.choosing.walks import AT_ONCE, JobWalk, batches, ended, found_ids
from gandy.desk.explain import Count
from gandy.desk.runs import Json, edited_input
from gandy.errors import DeadLetterNotFoundError
from gandy.settings.bounds import check
from gandy.store.letters import (
    AcknowledgeResult,
    RequeueResult,
    acknowledge_letters,
    begin_letter_walk,
    load_letter,
    next_awaiting,
    read_letters,
    requeue_letters,
)
from gandy.store.owners import narrowed_to_manifest
from gandy.store.reading.listings import dated
from gandy.work.layouts import layouts_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from gandy.desk.choosing.walks import Preview
    from gandy.model.owners import Operator, Owners
    from gandy.store.drivers.database import Database
    from gandy.store.owners import PayloadLayouts
    from gandy.store.reading.listings import LetterFilter
    from gandy.store.statements import Operation, Row
    from gandy.train.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSummary:
    """A dead letter in a listing."""

    id: int
    train: str
    manifest: str | None
    status: str
    reason: str
    run_id: int
    attempt: int
    dead_lettered_at: datetime
    resolved_at: datetime | None
    resolved_by: str | None
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterDetail:
    """All stored values of a dead letter; secrets in its input are masked."""

    id: int
    train: str
    manifest: str | None
    group: str | None
    owner: str
    status: str
    reason: str
    evidence: Json
    run_id: int
    input: Json
    due_at: datetime | None
    attempt: int
    priority: int
    dead_lettered_at: datetime
    resolved_at: datetime | None
    resolved_by: str | None
    resolution_note: str | None
    retry_run_id: int | None


class DeadLetterDesk:
    """Reads and resolves dead letters on behalf of an operator."""

    def __init__(
        self, database: Database, operator: Operator, *, owners: Owners, registry: Registry | None = None
    ) -> None:
        """Take the owners whose letters are visible, and the trains that check edited inputs."""
        self._database = database
        self._operator = operator
        self._owners = owners
        self._registry = registry

    async def list(self, wanted: LetterFilter) -> Listed[LetterSummary]:
        """List the newest letters first."""
        operation = search_listing(LETTERS, wanted, self._owners, registry=self._registry)
        return Listed.of(await self._database.read(operation), _summary)

    async def show(self, letter_id: int) -> LetterDetail:
        """Show one letter."""
        return await self._database.read(self._show(letter_id))

    async def preview(self, wanted: LetterFilter) -> Preview:
        """Count the letters that requeueing or acknowledging all would resolve by this filter."""
        return await self._walk(wanted).preview()

    async def count_known(self, ids: Sequence[int]) -> Count:
        """Count the letters with these ids; raise if there are none."""
        found = await self._database.read(read_letters(ids, self._owners))
        if ids and not found:
            raise DeadLetterNotFoundError(ids[0])
        return Count(value=len(found))

    async def find_awaiting(self, wanted: LetterFilter) -> Listed[int]:
        """Return the letters that requeueing or acknowledging all would resolve by this filter."""
        walk = self._walk(wanted)
        return found_ids(
            [letter_id async for ids in self._awaiting(walk, wanted) for letter_id in ids], [walk]
        )

    async def requeue(self, ids: Sequence[int], *, input_json: str | None = None) -> RequeueResult:
        """Queue the jobs of letters again, with the original or an edited input."""
        if input_json is not None:
            input_json = await self._database.run(self._edited(ids, input_json))
        total = RequeueResult()
        for start in range(0, len(ids), AT_ONCE):
            part = ids[start : start + AT_ONCE]
            operation = requeue_letters(part, self._operator, owners=self._owners, input_json=input_json)
            total = total.plus(await self._database.run(operation))
        return total

    async def requeue_all(
        self,
        wanted: LetterFilter,
        *,
        input_json: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> RequeueResult:
        """Queue the jobs of all letters that are unresolved now, in batches."""
        total, walk = RequeueResult(), self._walk(wanted)
        async for ids in self._awaiting(walk, wanted):
            total = total.plus(await self.requeue(ids, input_json=input_json))
            if progress is not None:
                progress(len(total.requeued))
        return ended(total, [walk])

    async def acknowledge(self, ids: Sequence[int], note: str) -> AcknowledgeResult:
        """Close letters without another run."""
        check("note", note)
        total = AcknowledgeResult()
        for start in range(0, len(ids), AT_ONCE):
            part = ids[start : start + AT_ONCE]
            operation = acknowledge_letters(part, self._operator, note, owners=self._owners)
            total = total.plus(await self._database.run(operation))
        return total

    async def acknowledge_all(
        self, wanted: LetterFilter, note: str, *, progress: Callable[[int], None] | None = None
    ) -> AcknowledgeResult:
        """Close all letters that are unresolved now, in batches."""
        total, walk = AcknowledgeResult(), self._walk(wanted)
        async for ids in self._awaiting(walk, wanted):
            total = total.plus(await self.acknowledge(ids, note))
            if progress is not None:
                progress(len(total.acknowledged))
        return ended(total, [walk])

    async def _awaiting(
        self, searched: JobWalk[LetterFilter], wanted: LetterFilter
    ) -> AsyncIterator[Sequence[int]]:
        """Page through the letters that are unresolved now, the oldest first; a walk searches texts."""
        if wanted.has_texts:
            found = [letter_id async for ids in searched.ids() for letter_id in ids]
            async for ids in batches(found[::-1]):
                yield ids
            return
        unknown = await self._database.read(find_unknown(wanted, self._owners, self._registry))
        if unknown is not None:
            raise unknown
        owners = await self._database.read(narrowed_to_manifest(self._owners, wanted.manifest))
        walk = await self._database.read(begin_letter_walk())
        if wanted.before is not None:
            walk = replace(walk, until=min(walk.until, wanted.before - 1))
        page = replace(await self._database.read(dated(wanted)), limit=AT_ONCE)
        while ids := await self._database.read(next_awaiting(walk, page, owners)):
            yield ids
            walk = replace(walk, after=ids[-1])

    def _walk(self, wanted: LetterFilter) -> JobWalk[LetterFilter]:
        awaiting = replace(wanted, status="awaiting_intervention", sort="id")
        return JobWalk(self._database, LETTERS, awaiting, owners=self._owners, registry=self._registry)

    def _edited(self, ids: Sequence[int], given: str) -> Operation[str]:
        """Check an edited input; masked secrets are restored only for a single letter."""
        letters = yield from read_letters(ids, self._owners)
        for owner, train in sorted({(row.owner, row.train) for row in letters}):
            if len(ids) == 1:
                letter = yield from load_letter(ids[0], self._owners)
                stored = None if letter is None else letter.input
                return (yield from edited_input(self._registry, owner, train, given=given, stored=stored))
            yield from edited_input(self._registry, owner, train, given=given, stored=None)
        return given

    def _show(self, letter_id: int) -> Operation[LetterDetail]:
        row = yield from load_letter(letter_id, self._owners)
        if row is None:
            raise DeadLetterNotFoundError(letter_id)
        return _detail(row, (yield from layouts_for(self._registry, row.owner, row.train)))


def _detail(row: Row, layouts: PayloadLayouts) -> LetterDetail:
    return shown(
        LetterDetail,
        row,
        group=row.group_name,
        evidence=None if row.evidence is None else json.loads(row.evidence),
        input=layouts.input.shown(row.input),
    )


def _summary(row: Row) -> LetterSummary:
    return shown(LetterSummary, row)
