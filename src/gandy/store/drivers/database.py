"""What a database offers to the rest of Gandy, whichever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from gandy.store.statements import Dialect, Operation

T = TypeVar("T")


class Runner(Protocol):
    """Runs an operation; what it wrote is committed or rolled back as one."""

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation to its end and return its result."""
        ...


class Transaction(Runner, Protocol):
    """Several operations that commit together."""

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """Undo only what happens inside when it raises."""
        ...


class Session(Runner, Protocol):
    """A connection kept for one loop; it comes back by itself after the database was away."""

    async def close(self) -> None:
        """Give the connection up."""
        ...


class Commands(Runner, Protocol):
    """A connection in no transaction: every statement is committed by itself."""

    async def execute(self, command: str) -> None:
        """Run a command that one of the package's own statements has written."""
        ...


@runtime_checkable
class KeepsDays(Protocol):
    """What a database offers that keeps history in partitions of a day."""

    def outside_transactions(self) -> AbstractAsyncContextManager[Commands]:
        """Open a connection for commands that no transaction may hold."""
        ...


class ReadingRunner(Runner, Protocol):
    """Runs operations, those that write nothing among them: all that most of the desk needs."""

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that writes nothing."""
        ...


class Database(ReadingRunner, Protocol):
    """One of the two databases that hold Gandy's tables."""

    @property
    def dialect(self) -> Dialect:
        """Which set of statements it speaks."""
        ...

    @property
    def address(self) -> str:
        """Its URL without the password."""
        ...

    @property
    def supports_partitions(self) -> bool:
        """Whether history is dropped by the day."""
        ...

    async def open(self) -> None:
        """Connect and verify the schema."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...

    async def run_apart(self, operation: Operation[T]) -> T:
        """Run an operation whose statements may each stand for itself: nothing is opened around them."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction for several operations."""
        ...

    def session(self) -> Session:
        """Keep a connection for one loop."""
        ...

    def notifications(self) -> AsyncIterator[str]:
        """Payloads of Gandy's channel, for as long as the caller listens."""
        ...
