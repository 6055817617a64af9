"""Listings that end: a walk looks at so many rows at most, and says where it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.store.statements import Operation, Rows

Key: TypeAlias = "int | str"

#: So many rows are looked at for one page.
SEARCHED: Final = 10_000
#: The first look goes over so many pages.
_FIRST_TIMES: Final = 4
#: Above every id.
_NEWEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Search:
    """What was found, and where to go on."""

    rows: Rows
    next: Key | None  #: the page or the search goes on behind this; None: there is no more
    is_cut: bool  #: the search stopped before the page was full; there may be more


def below(before: int | None) -> int:
    """Give the id that a page stays below; every page but the first has one."""
    return _NEWEST if before is None else before


def search(
    walk: str, wanted: Mapping[str, object], *, limit: int, gather: str | None = None, key: str = "id"
) -> Operation[Search]:
    """Walk in the order of the listing; where that ends too early, gather what an index holds together.

    A walk finds what is frequent, an index what is rare; only what is neither is searched page by page.
    """
    yield statement("keep_order")
    most = max(SEARCHED, limit)
    for so_many in (min(limit * _FIRST_TIMES, most), most):  # mostly, what is wanted comes first
        rows = yield statement(walk, limit=limit, searched=so_many, **wanted)
        found = _walked(rows, limit, so_many, key=key)
        if not found.is_cut:
            return found
    if gather is None:
        return found
    rows = yield statement(gather, limit=limit, searched=most, **wanted)
    is_too_much = bool(rows) and rows[0].place == most
    return found if is_too_much else _page(rows, limit, key=key)


def _walked(rows: Rows, limit: int, most: int, *, key: str) -> Search:
    if not rows or rows[-1].place != most:
        return _page(rows, limit, key=key)
    matches = [row for row in rows if row.is_match]
    return Search(matches, getattr(rows[-1], key), is_cut=len(matches) < limit)


def _page(rows: Rows, limit: int, *, key: str) -> Search:
    return Search(rows, getattr(rows[-1], key) if len(rows) == limit else None, is_cut=False)
