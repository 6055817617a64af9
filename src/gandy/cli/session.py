"""The application and the database of a command, and its shutdown."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import click

from gandy.desk.audit import local_operator
from gandy.desk.groups import GroupDesk
from gandy.desk.manifests import ManifestDesk
from gandy.errors import (
    DatabaseUnreachableError,
    GandyError,
    GroupNotFoundError,
    ManifestNotFoundError,
    NoDatabaseError,
    NotConfiguredError,
    OwnerNotFoundError,
    OwnerNotGivenError,
)
from gandy.model.owners import OneOwner
from gandy.settings import mask_url
from gandy.settings.values import similar_names
from gandy.store.drivers.database import database_file
from gandy.store.drivers.opening import open_database
from gandy.store.drivers.sqlite_values import no_folder
from gandy.store.owners import list_owners
from gandy.store.reading.views import ManifestFilter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gandy.app import Gandy
    from gandy.cli.call import Call
    from gandy.model.owners import Owners
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.train.registry import Registry


T = TypeVar("T")

_READING: Final = frozenset(
    {"explain", "growth", "health", "list", "logs", "preview", "show", "stats", "upcoming"}
)
_MOST_NAMES: Final = 10_000
_PATIENCE_OF_READING: Final = 5.0  # seconds, with a file that another process holds


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
    if (app is None or _only_reads()) and not _is_there(settings.database.url):
        raise _no_database(call, settings.database.url)
    database = (
        open_database(settings.database, patience=_PATIENCE_OF_READING, makes_tables=False)
        if _only_reads()
        else open_database(settings.database, makes_tables=app is not None)
    )
    try:
        await database.open()
        known = () if app and owners == OneOwner(app.name) else await database.read(list_owners())
        session = CommandSession(database, app, settings, _checked(owners, known, app))
        try:
            yield session
        except (GroupNotFoundError, ManifestNotFoundError) as error:
            await _suggest(session, error)
            raise
    finally:
        await database.close()


def _only_reads() -> bool:
    """Return whether the called command changes nothing."""
    context = click.get_current_context(silent=True)
    return context is not None and context.info_name in _READING


def _no_database(call: Call, url: str) -> GandyError:
    loaded = call.load_settings()
    file = database_file(url)
    if file is not None and not file.parent.is_dir():
        return DatabaseUnreachableError(mask_url(url), no_folder(file))
    if url == loaded.settings.database.url and loaded.origins["database.url"].kind == "default":
        return NotConfiguredError() if loaded.file is None else NoDatabaseError(url)
    return NoDatabaseError(mask_url(url))


async def _suggest(session: CommandSession, error: GroupNotFoundError | ManifestNotFoundError) -> None:
    """Add similar names to the error, unless it has them."""
    if getattr(error, "__notes__", ()):
        return
    operator = local_operator("cli")
    if isinstance(error, GroupNotFoundError):
        groups = GroupDesk(session.database, operator, owners=session.owners)
        wanted, names = error.name, [group.name for group in await groups.list(limit=_MOST_NAMES)]
    else:
        manifests = ManifestDesk(session.database, operator, owners=session.owners)
        found = await manifests.list(ManifestFilter(limit=_MOST_NAMES))
        wanted, names = error.external_id, [manifest.external_id for manifest in found]
    if similar := similar_names(wanted, names):
        error.add_note(f"did you mean {' or '.join(similar)}?")


def _is_there(url: str) -> bool:
    """Return whether the database exists: opening a missing or empty SQLite file would create it."""
    file = database_file(url)
    try:
        return file is None or (file.exists() and file.stat().st_size > 0)
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
