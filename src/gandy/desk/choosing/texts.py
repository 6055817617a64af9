"""Search for texts in errors and inputs, of bounded cost, in what operators may see."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic

from gandy.desk.choosing.names import find_unknown_place, find_unknown_train
from gandy.store.reading.listings import (
    Filter,
    Search,
    SearchedRows,
    dated,
    list_entries,
    list_letters,
    list_runs,
)
from gandy.work.layouts import layouts_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from gandy.model.layout import Layouts
    from gandy.model.owners import Owners
    from gandy.store.reading.listings import EntryFilter, JobFilter, LetterFilter, RunFilter
    from gandy.store.statements import Operation, Row
    from gandy.train.registry import Registry

#: A page looks at the texts of at most this many rows, the newest that the other filters leave.
PAGE_ROWS: Final = 2_500
#: A bulk verb and a command look at the texts of this many: of four pages.
MOST_ROWS: Final = 4 * PAGE_ROWS
#: ... and each stops after its part of these characters; those of an input with secrets count several times.
MOST_CHARACTERS: Final = 8 * 2**20
_WORK_OF_MASKING: Final = 8
_FIRST: Final = 250
_MORE: Final = 2_500


@dataclass(frozen=True, slots=True)
class Listing(Generic[Filter]):
    """One of the listings: how it is read, and where its rows keep what is searched."""

    find: Callable[[Filter, Owners], Operation[Search]]
    error_of: Callable[[Row], str]
    at_of: Callable[[Row], datetime]
    state_of: Callable[[Row], str]


def _joined(*parts: str | None) -> str:
    return ": ".join(part for part in parts if part)


RUNS: Final[Listing[RunFilter]] = Listing(
    list_runs,
    lambda row: _joined(row.failure_exception, row.failure_reason),
    lambda row: row.start_time,
    lambda row: row.state,
)
ENTRIES: Final[Listing[EntryFilter]] = Listing(
    list_entries,
    lambda row: _joined(row.reason, row.error),
    lambda row: row.created_at,
    lambda row: row.status,
)
LETTERS: Final[Listing[LetterFilter]] = Listing(
    list_letters, lambda row: row.reason, lambda row: row.dead_lettered_at, lambda row: row.status
)


def search_listing(
    listing: Listing[Filter],
    wanted: Filter,
    owners: Owners,
    *,
    registry: Registry | None = None,
    most: int | None = None,
) -> Operation[Search]:
    """Read one page of a listing; with texts, look at `most` rows (by default a page), and say how far.

    Statements leave out inputs beyond 16 KiB, so that a page of rows fits in memory. An empty page says
    if nothing has a name of the filter.
    """
    if (unknown := (yield from find_unknown_place(wanted, owners))) is not None:
        return Search([], None, is_cut=False, unknown=unknown)
    found = yield from _search(listing, wanted, owners, registry=registry, most=most)
    is_empty = not found.rows and found.next is None and wanted.before is None
    if not is_empty or wanted.train is None:
        return found
    return replace(found, unknown=(yield from find_unknown_train(wanted.train, owners, registry)))


def _search(
    listing: Listing[Filter],
    wanted: Filter,
    owners: Owners,
    *,
    registry: Registry | None,
    most: int | None,
) -> Operation[Search]:
    if not wanted.has_texts:
        return (yield from listing.find(wanted, owners))
    wanted = yield from dated(wanted)
    texts = _Texts(wanted, registry)
    left = PAGE_ROWS if most is None else most
    characters = MOST_CHARACTERS * left // MOST_ROWS
    page = replace(wanted, limit=min(_FIRST, left))
    matches: list[Row] = []
    looked = SearchedRows(0, None)
    newest: int | None = None
    while True:
        found = yield from listing.find(page, owners)
        for row in found.rows:
            newest = newest or row.id
            looked = SearchedRows(looked.rows + 1, listing.at_of(row), newest)
            if (yield from texts.match(row, listing.error_of(row))):
                matches.append(row)
            is_over = looked.rows >= left or texts.spent >= characters
            if is_over or len(matches) == wanted.limit:
                return Search(matches, row.id, is_cut=len(matches) < wanted.limit, looked=looked)
        if found.next is None or found.is_cut:
            return Search(matches, found.next, is_cut=found.is_cut, looked=looked)
        page = replace(page, before=int(found.next), limit=min(_MORE, left - looked.rows))


class _Texts:
    """Compares the texts of rows, ignoring case.

    A search could tell a secret letter by letter, so an input is compared as it is shown, with masks, and the
    rows that a page looks at do not depend on what is behind a mask.
    """

    def __init__(self, wanted: JobFilter, registry: Registry | None) -> None:
        self.spent = 0
        self._error = None if wanted.error_has is None else wanted.error_has.casefold()
        self._input = None if wanted.input_has is None else _spellings(wanted.input_has)
        self._registry = registry
        self._layouts: dict[tuple[str, str], Layouts] = {}

    def match(self, row: Row, error: str) -> Operation[bool]:
        """Return whether a row has the texts."""
        is_match = True
        if self._error is not None:
            self.spent += len(error)
            is_match = self._error in error.casefold()
        if self._input is not None and row.input is not None:
            shown = self._shown(row.input, (yield from self._layouts_of(row))).casefold()
            return is_match and any(spelling in shown for spelling in self._input)
        return is_match and self._input is None

    def _shown(self, text: str, layouts: Layouts) -> str:
        """Return an input as JSON on one line, with masks."""
        if layouts.is_open:
            self.spent += len(text)
            return text
        self.spent += len(text) * _WORK_OF_MASKING
        return json.dumps(layouts.shown(text), ensure_ascii=False)

    def _layouts_of(self, row: Row) -> Operation[Layouts]:
        key = (row.owner, row.train)
        if key not in self._layouts:
            self._layouts[key] = (yield from layouts_for(self._registry, row.owner, row.train)).input
        return self._layouts[key]


def _spellings(text: str) -> tuple[str, ...]:
    """Return how a text may be written in JSON: escaped or not, with and without spaces between members."""
    folded = text.casefold()
    escaped = json.dumps(folded, ensure_ascii=False)[1:-1]
    compact = folded.replace('": ', '":').replace(', "', ',"')
    wide = compact.replace('":', '": ').replace(',"', ', "')
    return tuple(dict.fromkeys((folded, escaped, compact, wide)))
