"""Walks over all rows that match a filter, and previews of what a bulk verb will touch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from gandy.desk.audit import Listed
from gandy.desk.choosing.texts import MOST_ROWS, search_listing
from gandy.errors import ValueBoundsError
from gandy.store.cancelling import CancelResult
from gandy.store.letters import AcknowledgeResult, RequeueResult
from gandy.store.reading.listings import (
    COUNTED,
    Filter,
    JobFilter,
    LetterFilter,
    RerunResult,
    SearchedRows,
    dated,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from gandy.desk.choosing.texts import Listing
    from gandy.model.owners import Owners
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.reading.listings import Moment
    from gandy.store.statements import Row
    from gandy.train.registry import Registry

AT_ONCE: Final = 500
_COUNTED_AT_ONCE: Final = 2_500
_MOST_READS: Final = 40  #: of a preview; each looks at 10,000 rows or finds a page of them
MOST_NAMED: Final = 1_000  #: ids in a preview
_PAGE: Final = frozenset({"before", "down_to", "limit", "sort"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewPart:
    """The jobs of one train in one state."""

    train: str
    state: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a bulk verb will touch."""

    jobs: int
    is_at_least: bool  #: there are more than were counted
    parts: tuple[PreviewPart, ...]
    ids: tuple[int, ...]  #: the first of them
    looked: SearchedRows | None  #: how far a search in texts looked
    next: int | None = None  #: rows below it were not looked at, and will not be touched
    since: datetime | None = None  #: the time range that was looked at
    until: datetime | None = None
    before: int = 1  #: above all that was counted

    @property
    def is_named(self) -> bool:
        """Whether the ids are all that was counted."""
        return not self.is_at_least and self.jobs <= MOST_NAMED

    @property
    def newest(self) -> int:
        """The newest id that a change by the filter may touch."""
        return self.before - 1

    def confirmed(self, wanted: Filter) -> tuple[tuple[int, ...], Filter]:
        """Return what a bulk verb takes once an operator has agreed: all named ids, or a bounded filter."""
        if self.is_named and self.ids:
            return self.ids, type(wanted)()
        return (), replace(wanted, since=self.since, until=self.until, before=self.before, down_to=self.next)


class JobWalk(Generic[Filter]):
    """A walk over a listing, from the newest row to the oldest; later rows are not part of it."""

    def __init__(
        self,
        database: ReadingRunner,
        listing: Listing[Filter],
        wanted: Filter,
        *,
        owners: Owners,
        registry: Registry | None,
        keep: Callable[[Row], bool] | None = None,
    ) -> None:
        """Take what selects the rows; `keep` leaves out some that no filter can."""
        self.looked: SearchedRows | None = None
        self.reads = 0
        self.is_over = False  #: nothing that a verb would touch is left
        self.next: int | None = None  #: where a search in texts stopped before the last row
        self._database = database
        self._listing = listing
        self._wanted = wanted
        self._before = wanted.before
        self._owners = owners
        self._registry = registry
        self._keep = keep

    async def pages(
        self, limit: int | None = None, *, most_reads: int | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        """Yield the rows page by page; a search in texts ends after its most rows.

        A filter with a name that nothing has is refused.
        """
        self._wanted = await self._database.read(dated(self._wanted))
        page: Filter = replace(self._wanted, limit=limit or AT_ONCE)
        while most_reads is None or self.reads < most_reads:
            self.reads += 1
            left = MOST_ROWS - (self.looked.rows if self.looked else 0)
            operation = search_listing(self._listing, page, self._owners, registry=self._registry, most=left)
            found = await self._database.read(operation)
            if found.unknown is not None:
                raise found.unknown
            self._note(found.looked)
            rows = [row for row in found.rows if self._is_wanted(row)]
            if rows:
                yield rows
            down_to = self._wanted.down_to
            if found.next is None or (down_to is not None and int(found.next) <= down_to):
                self.is_over, self.next = True, down_to
                return
            self._before = int(found.next)
            if self.looked is not None and self.looked.rows >= MOST_ROWS:
                self.is_over, self.next = True, self._before
                return
            page = replace(page, before=self._before)

    def _is_wanted(self, row: Row) -> bool:
        down_to = self._wanted.down_to
        return (down_to is None or row.id >= down_to) and (self._keep is None or self._keep(row))

    async def ids(self) -> AsyncIterator[Sequence[int]]:
        """Yield the ids of the rows page by page."""
        async for rows in self.pages():
            yield [row.id for row in rows]

    async def preview(self) -> Preview:
        """Count what matches, up to the limit of counts, and of reads where matches are rare."""
        parts: Counter[tuple[str, str]] = Counter()
        ids: list[int] = []
        newest: int | None = None
        async for rows in self.pages(_COUNTED_AT_ONCE, most_reads=_MOST_READS):
            newest = newest or rows[0].id
            ids += [row.id for row in rows[: MOST_NAMED - len(ids)]]
            parts.update((row.train, self._listing.state_of(row)) for row in rows)
            if parts.total() >= COUNTED:
                break
        return Preview(
            jobs=parts.total(),
            is_at_least=not self.is_over,
            parts=tuple(
                PreviewPart(train=train, state=state, jobs=jobs)
                for (train, state), jobs in sorted(parts.items(), key=lambda each: (-each[1], each[0]))
            ),
            ids=tuple(ids),
            looked=self.looked,
            next=self.next,
            since=_instant(self._wanted.since),
            until=_instant(self._wanted.until),
            before=self._bound(newest),
        )

    def _bound(self, newest: int | None) -> int:
        """Return what is above all matches; without a match, where the walk stopped.

        A search in texts has to begin at the same row to end at the same one.
        """
        if self.looked is not None and self.looked.newest is not None:
            return self.looked.newest + 1
        if newest is not None:
            return newest + 1
        return 1 if self.is_over or self._before is None else self._before

    def _note(self, looked: SearchedRows | None) -> None:
        if looked is not None:
            self.looked = looked if self.looked is None else self.looked.plus(looked)


def _instant(moment: Moment | None) -> datetime | None:
    return moment if isinstance(moment, datetime) else None  # a walk has replaced periods by instants


class _Stopping(Protocol):
    @property
    def looked(self) -> SearchedRows | None: ...

    @property
    def next(self) -> int | None: ...


def looked_in(walks: Sequence[_Stopping]) -> SearchedRows | None:
    """Return how far all of several walks over the same ids looked."""
    looked = [walk.looked for walk in walks if walk.looked is not None]
    times = [each.back_to for each in looked if each.back_to is not None]
    newest = [each.newest for each in looked if each.newest is not None]
    rows = sum(each.rows for each in looked)
    return SearchedRows(rows, max(times, default=None), max(newest, default=None)) if looked else None


def next_of(walks: Sequence[_Stopping]) -> int | None:
    """Return where to continue several walks over the same ids, so that no row is passed over."""
    return max((walk.next for walk in walks if walk.next is not None), default=None)


Result = TypeVar("Result", CancelResult, RerunResult, RequeueResult, AcknowledgeResult)


def ended(result: Result, walks: Sequence[_Stopping]) -> Result:
    """Return the result of a verb with how far its walks looked."""
    return replace(result, looked=looked_in(walks), next=next_of(walks))


def found_ids(ids: Iterable[int], walks: Sequence[_Stopping]) -> Listed[int]:
    """Return the ids that walks found, each once, with how far the walks looked."""
    listed = Listed.all_of(dict.fromkeys(ids), is_cut=next_of(walks) is not None)
    listed.next, listed.looked = next_of(walks), looked_in(walks)
    return listed


def both(first: Preview, second: Preview) -> Preview:
    """Combine the previews of two walks."""
    return Preview(
        jobs=first.jobs + second.jobs,
        is_at_least=first.is_at_least or second.is_at_least,
        parts=first.parts + second.parts,
        ids=tuple(dict.fromkeys(first.ids + second.ids))[:MOST_NAMED],
        looked=looked_in([first, second]),
        next=next_of([first, second]),
        since=first.since,
        until=first.until,
        before=max(first.before, second.before),
    )


def preview_of_ids(ids: Sequence[int]) -> Preview:
    """Return the preview of selected rows, which are not read."""
    found = tuple(dict.fromkeys(ids))
    return Preview(jobs=len(found), is_at_least=False, parts=(), ids=found[:MOST_NAMED], looked=None)


def chosen(wanted: JobFilter) -> Mapping[str, object]:
    """Return the values of a filter, without those that select a page."""
    return {each.name: getattr(wanted, each.name) for each in fields(wanted) if each.name not in _PAGE}


def refuse_unclear(what: str, ids: Sequence[int], wanted: JobFilter) -> None:
    """Refuse a call without ids and filter, which could mean everything, and a call with both."""
    given = chosen(wanted)
    is_filtered = any(value is not None for value in given.values())
    is_filtered |= bool(ids) and wanted.before is not None
    if bool(ids) == is_filtered:
        by = "both" if is_filtered else "nothing"
        raise ValueBoundsError(what, f"chosen by ids, or by {', '.join(given)}", f"by {by}")


def refuse_unclear_letters(ids: Sequence[int], wanted: LetterFilter, *, everything: bool) -> None:
    """Refuse a call that could mean other letters than the caller thinks."""
    if bool(ids) == everything:
        given = "both" if ids else "nothing"
        raise ValueBoundsError("dead letters", "chosen by ids, or by all=True", f"by {given}")
    if ids and wanted != LetterFilter():
        raise ValueBoundsError("filters", "given with all=True", "with ids")


async def batches(ids: Sequence[int]) -> AsyncIterator[Sequence[int]]:
    """Yield given ids in batches."""
    for start in range(0, len(ids), AT_ONCE):
        yield ids[start : start + AT_ONCE]
