"""Driving an operation: send it the rows of each step until it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gandy.store.statements import Operation, Rows, Step

T = TypeVar("T")


def drive(operation: Operation[T], execute: Callable[[Step], Rows]) -> T:
    """Run an operation on a connection that answers at once."""
    try:
        step = next(operation)
        while True:
            step = operation.send(execute(step))
    except StopIteration as ended:
        result: T = ended.value
        return result
    finally:
        operation.close()


async def drive_async(operation: Operation[T], execute: Callable[[Step], Awaitable[Rows]]) -> T:
    """Run an operation on a connection that has to be awaited."""
    try:
        step = next(operation)
        while True:
            step = operation.send(await execute(step))
    except StopIteration as ended:
        result: T = ended.value
        return result
    finally:
        operation.close()
