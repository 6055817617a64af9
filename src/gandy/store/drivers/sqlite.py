"""SQLite through the standard library: every transaction runs in the thread that owns its connection."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from gandy.errors import DatabaseBusyError, DatabaseFaultError
from gandy.store.drivers.database import drive, sqlite_path
from gandy.store.drivers.migrate import MigrationResult, apply_pending, read_state, verify
from gandy.store.drivers.sqlite_steps import execute_step
from gandy.store.drivers.sqlite_values import StatementClock, translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from gandy.clock import ManualClock
    from gandy.settings import DatabaseSettings
    from gandy.store.statements import Dialect, Operation

T = TypeVar("T")

_log = logging.getLogger("gandy.store")

_BUSY_SECONDS = 30.0
_QUIET_SECONDS = 2.0  #: of these, until it is said that another process holds the file
_OLDEST = (3, 40, 0)


class SqliteDatabase:
    """Gandy's tables in one file, shared safely by several processes on one host."""

    dialect: Dialect = "sqlite"
    supports_partitions = False

    def __init__(
        self,
        settings: DatabaseSettings,
        *,
        clock: ManualClock | None = None,
        patience: float | None = None,
        makes_tables: bool = True,
    ) -> None:
        """Take how many seconds to wait for another process that holds the file, by default half a minute."""
        self.address = settings.url
        self._makes_tables = makes_tables
        path = sqlite_path(settings.url)

        def make() -> Connection:
            return connect(path, clock, patience)

        self._writer = _Lane(make, path, "gandy-sqlite-writer")
        self._reader = _Lane(make, path, "gandy-sqlite-reader", is_reader=True)

    async def open(self) -> None:
        """Open the file and migrate its schema: an embedded database has no separate deployment step."""
        await self._writer.call(migrate if self._makes_tables else migrate_tables)
        await self._reader.call(_data_version)

    async def close(self) -> None:
        """Close both connections."""
        await self._reader.close()
        await self._writer.close()

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        return await self._writer.run(operation, "BEGIN IMMEDIATE")

    async def run_apart(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction anyway: on SQLite that costs nothing."""
        return await self.run(operation)

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation on a snapshot, concurrently with writers."""
        return await self._reader.run(operation, "BEGIN")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqliteTransaction]:
        """Open a transaction for several operations; other writers of this process wait."""
        async with self._writer.turn:
            try:  # includes BEGIN: a cancelled caller may have begun the transaction already
                await self._writer.call_unlocked(begin_immediate)
                yield SqliteTransaction(self._writer)
            except BaseException as error:
                await asyncio.shield(self._writer.call_unlocked(Connection.rollback))
                await self._writer.give_up_after(error)
                raise
            await asyncio.shield(self._writer.call_unlocked(Connection.commit))

    def session(self) -> SqliteSession:
        """Return a session; all loops of a process share its one writer."""
        return SqliteSession(self)

    async def notifications(self) -> AsyncIterator[str]:
        """Yield when another process has changed the file, found by polling."""
        seen = await self._reader.call(_data_version)
        while True:
            now = await self._reader.call(_data_version)
            if now != seen:
                seen = now
                yield "changed"
            await asyncio.sleep(_LOOK_EVERY)


_LOOK_EVERY = 0.1


class SqliteSession:
    """The database itself, as a session for loops."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    saves_trips = False

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        return await self._database.run(operation)

    async def run_apart(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction anyway: on SQLite that costs nothing."""
        return await self._database.run(operation)

    async def close(self) -> None:
        """Do nothing: the connection belongs to the database."""


class SqliteTransaction:
    """Several operations in the writer's open transaction."""

    def __init__(self, lane: _Lane) -> None:
        self._lane = lane

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation inside this transaction."""
        return await self._lane.call_unlocked(lambda connection: run_on(connection, operation))

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Roll back only the block if it raises."""
        await self._lane.call_unlocked(lambda connection: connection.execute("SAVEPOINT part"))
        try:
            yield
        except BaseException:
            await self._lane.call_unlocked(_undo_part)
            raise
        await self._lane.call_unlocked(lambda connection: connection.execute("RELEASE part"))


class Connection(sqlite3.Connection):
    """A connection with the clock that its statements read."""

    clock: StatementClock
    patience: float


class _Lane:
    """A thread and its connection; after a fault the next call opens a new one."""

    def __init__(
        self, make: Callable[[], Connection], path: Path, name: str, *, is_reader: bool = False
    ) -> None:
        self._make = make
        self._path = path
        self._is_reader = is_reader
        self._connection: Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self.turn = asyncio.Lock()

    async def run(self, operation: Operation[T], begin: str) -> T:
        """Run an operation between its own BEGIN and COMMIT."""
        return await self.call(lambda connection: run_whole(connection, operation, begin))

    async def call(self, work: Callable[[Connection], T]) -> T:
        """Wait for a turn, then call in the thread."""
        async with self.turn:
            try:
                return await self.call_unlocked(work)
            except DatabaseFaultError as fault:
                await self.give_up_after(fault)
                raise

    async def call_unlocked(self, work: Callable[[Connection], T]) -> T:
        """Call in the thread; the caller holds the turn."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._call, work)

    async def give_up_after(self, error: BaseException) -> None:
        """Drop the connection after a fault: the file may have been moved, or replaced."""
        if isinstance(error, DatabaseFaultError) and not isinstance(error, DatabaseBusyError):
            await asyncio.get_running_loop().run_in_executor(self._thread, self._give_up)

    async def close(self) -> None:
        """End the thread, then close the connection here: at interpreter exit, no executor takes new work."""
        async with self.turn:
            self._thread.shutdown()
            if self._connection is not None:
                self._connection.close()

    def _call(self, work: Callable[[Connection], T]) -> T:
        with translated(self._path):
            if self._connection is None:
                self._connection = self._connect()
            return work(self._connection)

    def _connect(self) -> Connection:
        connection = self._make()
        if self._is_reader:
            connection.execute("PRAGMA query_only = on")
            _set_patience(connection, connection.patience)
        return connection

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def connect(path: Path, clock: ManualClock | None = None, patience: float | None = None) -> Connection:
    """Open the file with WAL, a busy timeout, foreign keys and the clock functions."""
    patience = _BUSY_SECONDS if patience is None else patience
    try:
        return _connect(path, clock, patience)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _UNWRITABLE or not _can_be_read(path):
            raise
        return _connect(f"{path.absolute().as_uri()}?immutable=1", clock, patience)


_UNWRITABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})


def _can_be_read(path: Path) -> bool:
    """Return whether a file in a folder that cannot be written is out of use, which the missing WAL shows."""
    try:
        return path.is_file() and not path.with_name(f"{path.name}-wal").exists()
    except OSError:  # such as a name that is too long
        return False


def _connect(where: Path | str, clock: ManualClock | None, patience: float) -> Connection:
    connection = sqlite3.connect(
        where,
        uri=isinstance(where, str),
        timeout=min(_QUIET_SECONDS, patience),
        isolation_level=None,
        cached_statements=512,
        check_same_thread=False,
        factory=Connection,
    )
    connection.patience = patience
    try:
        _execute_held(connection, "PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = normal")
        connection.execute("PRAGMA foreign_keys = on")
        connection.clock = StatementClock(lambda: clock.now if clock else datetime.now(UTC))
        connection.clock.register(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def migrate(connection: Connection) -> MigrationResult:
    """Bring the file's schema up to date; a second process waits for the first."""
    state = run_on(connection, read_state())
    if not state.pending("sqlite"):
        verify(state, "sqlite")
        return MigrationResult(state.version, state.version, ())
    with _unenforced(connection):
        begin_immediate(connection)
        with _committed(connection):
            applying = apply_pending("sqlite", lambda script: _execute_script(connection, script))
            result = run_on(connection, applying)
            _refuse_broken_references(connection)
            return result


def migrate_tables(connection: Connection) -> MigrationResult:
    """Bring the schema up to date, but make no tables in a file that has none of Gandy."""
    state = run_on(connection, read_state())
    if state.version == 0:
        verify(state, "sqlite")
    return migrate(connection)


def execute_unenforced(connection: Connection, commands: Sequence[str]) -> None:
    """Run commands in a transaction, without enforcing foreign keys."""
    with _unenforced(connection):
        begin_immediate(connection)
        with _committed(connection):
            for command in commands:
                connection.execute(command)


@contextmanager
def _unenforced(connection: Connection) -> Iterator[None]:
    """Do not enforce foreign keys: a table that is rebuilt does not exist for a moment."""
    connection.execute("PRAGMA foreign_keys = off")
    try:
        yield
    finally:
        connection.execute("PRAGMA foreign_keys = on")


def _refuse_broken_references(connection: Connection) -> None:
    """Check before the commit that every foreign key refers to a row."""
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise sqlite3.IntegrityError("FOREIGN KEY constraint failed")


def begin_immediate(connection: Connection) -> None:
    """Take the write lock now, so that nothing read afterwards can be stale."""
    _begin(connection, "BEGIN IMMEDIATE")


def run_on(connection: Connection, operation: Operation[T]) -> T:
    """Drive an operation inside the open transaction, if any."""
    return drive(operation, lambda step: execute_step(connection, step))


def run_whole(connection: Connection, operation: Operation[T], begin: str) -> T:
    """Run an operation between its own BEGIN and COMMIT."""
    _begin(connection, begin)
    with _committed(connection):
        return run_on(connection, operation)


def _begin(connection: Connection, begin: str) -> None:
    _execute_held(connection, begin)
    connection.clock.begin()


def _execute_held(connection: Connection, command: str) -> None:
    """Run a command that another process may hold up; if it does, say so and wait longer."""
    try:
        connection.execute(command)
    except sqlite3.OperationalError as error:
        left = connection.patience - _QUIET_SECONDS
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or left <= 0:
            raise
        _log.warning("another process holds the database file; waiting for up to %.0f seconds", left)
        _set_patience(connection, left)
        try:
            connection.execute(command)
        finally:
            _set_patience(connection, _QUIET_SECONDS)


def _set_patience(connection: Connection, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {seconds * 1_000:.0f}")


@contextmanager
def _committed(connection: Connection) -> Iterator[None]:
    try:
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _undo_part(connection: Connection) -> None:
    """Roll back a savepoint, unless a full disk has already ended the transaction."""
    if connection.in_transaction:
        connection.execute("ROLLBACK TO part")
        connection.execute("RELEASE part")


def _execute_script(connection: Connection, script: str) -> None:
    """Run a script statement by statement: executescript would commit the open transaction."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            connection.execute(pending)
            pending = ""


def _data_version(connection: Connection) -> int:
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version


if sqlite3.sqlite_version_info < _OLDEST:
    raise ImportError(f"Gandy needs SQLite 3.40 or later, this Python has {sqlite3.sqlite_version}")
