"""The application and the database of a command, and its shutdown."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import traceback
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from gandy.errors import AppLoadError, AppReferenceError, GandyError, OwnerNotFoundError, OwnerNotGivenError
from gandy.model.owners import OneOwner
from gandy.settings.files import distrust
from gandy.settings.urls import mask_url
from gandy.store.drivers.database import database_file
from gandy.store.drivers.opening import open_database
from gandy.store.owners import list_owners

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import timedelta
    from types import ModuleType

    from gandy.app import Gandy
    from gandy.cli.call import Call
    from gandy.model.owners import Owners
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.train.registry import Registry


def load_app(reference: str, *, directory: Path) -> Gandy:
    """Import the application; search the directory first, unless another user can write to it."""
    if "://" in reference or "@" in reference:
        raise AppReferenceError(mask_url(reference), "this looks like a URL; pass it as --database")
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise AppReferenceError(reference, "write it as MODULE:NAME, such as billing.jobs:app")
    if distrust(directory) is None and str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    return _pick(_import(reference, module_name, directory), reference, name)


def _import(reference: str, module_name: str, directory: Path) -> ModuleType:
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise AppReferenceError(reference, _not_found(error.name, directory)) from error
        raise AppLoadError(reference, _location(error), str(error)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise AppLoadError(reference, _location(error), _summary(error)) from error


def _not_found(module_name: str, directory: Path) -> str:
    if reason := distrust(directory):
        return (
            f"there is no module {module_name!r} among the installed packages, and {directory} is not "
            f"searched, because {reason}; PYTHONPATH={directory} imports from it all the same"
        )
    return f"there is no module {module_name!r} in {directory} nor among the installed packages"


def _pick(module: ModuleType, reference: str, name: str) -> Gandy:
    from gandy.app import Gandy  # noqa: PLC0415 the errors above need none of it

    found: object = getattr(module, name, None)
    if isinstance(found, Gandy):
        return found
    apps = [f"{module.__name__}:{other}" for other, value in vars(module).items() if isinstance(value, Gandy)]
    hint = f"did you mean {' or '.join(apps)}?" if apps else "the module has no application: app = Gandy(...)"
    what = f"has no {name!r}" if found is None else f"{name!r} is a {type(found).__name__}, not a Gandy"
    raise AppReferenceError(reference, f"{what}; {hint}")


def _location(error: BaseException) -> str:
    """Return the innermost line of the user's own code, or of the whole traceback."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")
    ]
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(Path.cwd())]
    last = (own or frames)[-1]
    return f"{_short(last.filename)}:{last.lineno}"


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _summary(error: BaseException) -> str:
    if isinstance(error, GandyError):
        return str(error)
    return "".join(traceback.format_exception_only(error)[-1:]).strip()


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
