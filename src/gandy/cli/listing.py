"""Listings of commands: how many rows they print, and what they say about the rows that they leave out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import click
from click.core import ParameterSource

from gandy.cli.output import emit_rows, human, say
from gandy.desk.choosing.names import sentence_of
from gandy.desk.choosing.texts import MOST_ROWS, PAGE_ROWS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from gandy.desk.audit import Listed
    from gandy.store.reading.listings import SearchedRows

T = TypeVar("T")

_PAGE: Final = 10_000
_LONGER: Final = 10
_MOST_PAGES: Final = 20  # the limit of a search for rows that the filter of a command keeps
_SEARCHED_PAGES: Final = MOST_ROWS // PAGE_ROWS  # of a search in texts
_OF_SEVERAL: Final = "There may be more rows: pass --owner NAME to list one application page by page."


@dataclass(frozen=True, slots=True)
class PrintedRows(Generic[T]):
    """The rows to print, and what to say about the others."""

    rows: Sequence[T]
    remark: str | None = None


def limited(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command --limit and --all; it receives `limit`, which is None for all rows."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--limit",
            type=click.IntRange(1, 10_000),
            default=default,
            show_default=True,
            help="Maximum number of rows.",
        )
        @click.option("--all", "is_whole", is_flag=True, help="All rows.")
        @wraps(command)
        def called(*arguments: Any, limit: int, is_whole: bool, **options: Any) -> Any:  # noqa: ANN401 - click's
            source = click.get_current_context().get_parameter_source("limit")
            if is_whole and source == ParameterSource.COMMANDLINE:
                raise click.UsageError("--limit and --all exclude each other")
            return command(*arguments, limit=None if is_whole else limit, **options)

        return called

    return decorate


def first_of(rows: Sequence[T], limit: int | None) -> PrintedRows[T]:
    """Keep the first rows of a listing that was read whole."""
    if limit is None or len(rows) <= limit:
        return PrintedRows(rows)
    remark = f"These are the first {limit:,} of {len(rows):,}; for more pass --all or --limit N."
    return PrintedRows(rows[:limit], remark)


async def read_pages(
    read: Callable[[Any, int], Awaitable[Listed[T]]],
    start: object,
    limit: int | None,
    *,
    keep: Callable[[T], bool] | None = None,
    option: str = "--before",
    key: str = "id",
) -> PrintedRows[T]:
    """Read page by page until enough rows are found; `read` takes where a page starts, and its length."""
    rows: list[T] = []
    looked: SearchedRows | None = None
    length = _PAGE if limit is None else limit + 1
    pages = 0
    while True:
        found = await read(start, length)
        rows += found if keep is None else filter(keep, found)
        if found.unknown is not None:
            return PrintedRows(rows, sentence_of(found.unknown))
        if found.looked is not None:
            looked = found.looked if looked is None else looked.plus(found.looked)
        pages += 1
        if limit is not None and len(rows) > limit:
            is_of_several = found.next is None and found.is_cut  # whose rows have no common order
            after = getattr(rows[limit - 1], key)
            remark = _OF_SEVERAL if is_of_several else _more(limit, f"{option} {after}")
            return PrintedRows(rows[:limit], joined(tell_looked(looked), remark))
        if found.next is None:
            return PrintedRows(rows, joined(tell_looked(looked), _OF_SEVERAL if found.is_cut else None))
        start = found.next
        if keep is not None:  # few of the rows may be those that the command keeps
            length = min(_LONGER * length, _PAGE)
        is_over = looked is None or looked.rows >= MOST_ROWS or pages == _SEARCHED_PAGES
        if limit is not None and (pages == _MOST_PAGES or (found.is_cut and is_over)):
            remark = f"The search stopped at {start}; pass {option} {start} to continue."
            return PrintedRows(rows, joined(tell_looked(looked), remark))


def tell_looked(looked: SearchedRows | None) -> str | None:
    """Say how far a search in texts looked."""
    if looked is None:
        return None
    back = "" if looked.back_to is None else f", back to {human(looked.back_to)}"
    return f"Looked at the texts of the newest {looked.rows:,} rows that the other filters leave{back}."


def joined(*remarks: str | None) -> str | None:
    """Join remarks, a line each."""
    return "\n".join(filter(None, remarks)) or None


def _more(limit: int, following: str) -> str:
    return f"These are the first {limit:,}; for more pass --all, --limit N, or {following}."


def emit_found(found: PrintedRows[T], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a listing; what it leaves out is said on stderr."""
    emit_rows(found.rows, columns, as_json=as_json)
    if found.remark:
        say(found.remark)
