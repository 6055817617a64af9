"""The database that a command reads, with the application where one is named."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from gandy.store.drivers.opening import open_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gandy.app import Gandy
    from gandy.cli.call import Call
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

    @property
    def owner(self) -> str | None:
        """The application's name; None looks at all."""
        return self.app.name if self.app else None

    @property
    def registry(self) -> Registry | None:
        """The application's trains, which know what is secret."""
        return self.app.registry if self.app else None


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
    database = open_database(settings.database)
    try:
        await database.open()
        yield Session(database, app, settings)
    finally:
        await database.close()
