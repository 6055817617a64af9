"""The database that a command reads, with the application where one is named."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from gandy.errors import OwnerNotFoundError, OwnerNotGivenError
from gandy.model.owners import OneOwner
from gandy.store.drivers.database import database_file
from gandy.store.drivers.opening import open_database
from gandy.store.owners import list_owners

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gandy.app import Gandy
    from gandy.cli.call import Call
    from gandy.model.owners import Owners
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.train.registry import Registry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """What a command works with."""

    database: Database
    app: Gandy | None
    settings: Settings

    owners: Owners

    @property
    def registry(self) -> Registry | None:
        """The application's trains; another owner's are not known here, whatever their names."""
        if self.app is None or self.owners != OneOwner(self.app.name):
            return None
        return self.app.registry


def with_session(call: Call, work: Callable[[Session], Awaitable[T]]) -> T:
    """Open the database, do the work and close it."""

    async def run() -> T:
        async with _opened(call) as session:
            return await work(session)

    return asyncio.run(run())


@asynccontextmanager
async def _opened(call: Call) -> AsyncIterator[Session]:
    app = call.find_app()
    settings = app.settings if app else call.load_settings().settings
    owners = call.named_owners(app)
    if owners is None and not _is_there(settings.database.url):
        raise OwnerNotGivenError(())
    database = open_database(settings.database)
    try:
        await database.open()
        known = () if app and owners == OneOwner(app.name) else await database.read(list_owners())
        yield Session(database, app, settings, _checked(owners, known, app))
    finally:
        await database.close()


def _is_there(url: str) -> bool:
    """Tell whether there may be owners to name: opening a file that is not there would make it."""
    file = database_file(url)
    try:
        return file is None or file.exists()
    except OSError:  # such as a name that is too long: opening says so
        return True


def _checked(owners: Owners | None, known: tuple[str, ...], app: Gandy | None) -> Owners:
    """Refuse a call that does not say whose rows it means, or names an owner that is not there."""
    if owners is None:
        raise OwnerNotGivenError(known)
    is_own = app is not None and owners == OneOwner(app.name)
    if isinstance(owners, OneOwner) and not is_own and owners.name not in known:
        raise OwnerNotFoundError(owners.name, known)
    return owners
