"""The application and the database of a command, and its shutdown."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from gandy.errors import OwnerNotFoundError, OwnerNotGivenError
from gandy.model.owners import OneOwner
from gandy.store.drivers.database import database_file
from gandy.store.drivers.opening import open_database
from gandy.store.owners import list_owners

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import timedelta

    from gandy.app import Gandy
    from gandy.cli.call import Call
    from gandy.model.owners import Owners
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.train.registry import Registry


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommandSession:
    """The open database of a command, with its application, settings and owners."""

    database: Database
    app: Gandy | None
    settings: Settings

    owners: Owners

    @property
    def registry(self) -> Registry | None:
        """The trains of the application; None for another owner, whose trains may have the same names."""
        if self.app is None or self.owners != OneOwner(self.app.name):
            return None
        return self.app.registry


def with_session(call: Call, work: Callable[[CommandSession], Awaitable[T]]) -> T:
    """Open the database, await the work and close the database."""

    async def run() -> T:
        async with _opened(call) as session:
            return await work(session)

    return asyncio.run(run())


@asynccontextmanager
async def _opened(call: Call) -> AsyncIterator[CommandSession]:
    app = call.find_app()
    settings = app.settings if app else call.load_settings().settings
    owners = call.named_owners(app)
    if owners is None and not _is_there(settings.database.url):
        raise OwnerNotGivenError(())
    database = open_database(settings.database)
    try:
        await database.open()
        known = () if app and owners == OneOwner(app.name) else await database.read(list_owners())
        yield CommandSession(database, app, settings, _checked(owners, known, app))
    finally:
        await database.close()


def _is_there(url: str) -> bool:
    """Return whether the database exists: opening a missing SQLite file would create it."""
    file = database_file(url)
    try:
        return file is None or file.exists()
    except OSError:  # such as a name that is too long: opening reports it
        return True


def _checked(owners: Owners | None, known: tuple[str, ...], app: Gandy | None) -> Owners:
    """Refuse a call that selects no owner or an unknown owner."""
    if owners is None:
        raise OwnerNotGivenError(known)
    is_own = app is not None and owners == OneOwner(app.name)
    if isinstance(owners, OneOwner) and not is_own and owners.name not in known:
        raise OwnerNotFoundError(owners.name, known)
    return owners


SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
LEAVE_SECONDS: Final = 5.0
CUT_OFF: Final = 3
SECOND_SIGNAL: Final = 130


def stop_on_signals(*, grace: timedelta) -> asyncio.Event:
    """Return an event that the first signal sets; the process exits after the grace period in any case."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        if stop.is_set():
            os._exit(SECOND_SIGNAL)
        stop.set()
        exit_after(grace.total_seconds() + LEAVE_SECONDS)

    for each in SIGNALS:
        loop.add_signal_handler(each, ask)
    return stop


def exit_after(seconds: float) -> None:
    """Exit the process after a timeout: a thread that hangs would block the interpreter's exit forever."""
    timer = threading.Timer(seconds, os._exit, (CUT_OFF,))
    timer.daemon = True
    timer.start()
