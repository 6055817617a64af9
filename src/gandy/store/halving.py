"""Writing a set of items: one that the database refuses is found by halving, and the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from gandy.errors import DatabaseFaultError, RowBusyError, RowConflictError, SetRefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")


class Refused(NamedTuple, Generic[Item]):
    """An item that was refused alone, and the evidence."""

    item: Item
    error: Exception


class HalvedResult(NamedTuple, Generic[Item, Result]):
    """What the parts of a set that were written gave, and the items that were refused."""

    written: list[Result]
    refused: list[Refused[Item]]


async def write_halved(
    items: Sequence[Item],
    write: Callable[[Sequence[Item]], Awaitable[Result]],
    *,
    charges_all: bool = False,
    isolates_busy: bool = False,
) -> HalvedResult[Item, Result]:
    """Write a set whose parts may be written apart; `write` undoes what it did when it raises.

    A fault of the database as a whole, and a cancellation, end the writing at once: nothing is charged. Where
    every item of a set is refused alone with the same error, no item can be told to be the bad one, and
    SetRefusedError says so; `charges_all` charges them all the same, for a set that was tried often enough.
    With `isolates_busy` rows that stay locked are found by halving too; the caller tries these again later.
    """
    result: HalvedResult[Item, Result] = HalvedResult([], [])
    await _write_part(items, write, result, isolates_busy=isolates_busy)
    if not charges_all and len(result.refused) == len(items) > 1:
        kinds = {_kind(refused.error) for refused in result.refused}
        if len(kinds) == 1:
            raise SetRefusedError(len(items), str(result.refused[0].error))
    return result


async def _write_part(
    items: Sequence[Item],
    write: Callable[[Sequence[Item]], Awaitable[Result]],
    result: HalvedResult[Item, Result],
    *,
    isolates_busy: bool,
) -> None:
    try:
        result.written.append(await write(items))
    except Exception as error:  # unknown errors are one item's too, until all items fail alike
        is_row = isolates_busy and isinstance(error, RowBusyError)
        if isinstance(error, DatabaseFaultError) and not is_row:
            raise
        if len(items) == 1:
            result.refused.append(Refused(items[0], error))
            return
        middle = len(items) // 2
        await _write_part(items[:middle], write, result, isolates_busy=isolates_busy)
        await _write_part(items[middle:], write, result, isolates_busy=isolates_busy)


def _kind(error: Exception) -> tuple[type[Exception], str]:
    """Tell errors apart by class and constraint: their texts name the item's own values."""
    return type(error), error.constraint if isinstance(error, RowConflictError) else ""
