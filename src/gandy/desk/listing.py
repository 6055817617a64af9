"""One page of a listing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.store.reading.listings import Key, Search
    from gandy.store.statements import Row

T = TypeVar("T")


class Listed(tuple[T, ...]):  # noqa: SLOT001 what is as long as a tuple cannot have any
    """What a page shows, and where to go on; a search that stopped early says so."""

    next: Key | None
    is_cut: bool

    @classmethod
    def of(cls, found: Search, shown: Callable[[Row], T]) -> Listed[T]:
        """Show each row."""
        listed = cls(map(shown, found.rows))
        listed.next = found.next
        listed.is_cut = found.is_cut
        return listed
