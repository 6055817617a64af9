"""Errors of applications, settings and the command line."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from gandy.errors.base import GandyError, message

if TYPE_CHECKING:
    from pathlib import Path


class UnknownHookError(GandyError):
    """A hook was registered for an event that does not exist."""

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        super().__init__(f"no hook is named {name!r}; the hooks are {', '.join(known)}")


@message("{what} {name!r}: {problem}")
class DeclarationError(GandyError, ValueError):
    """An invalid declaration."""

    exit_code = 2

    name: str
    problem: str
    _: KW_ONLY
    what: str = "manifest"


class DuplicateDeclarationError(DeclarationError):
    """Two declarations with the same name."""

    def __init__(self, name: str, *, what: str, known: tuple[str, ...]) -> None:
        super().__init__(name, f"it is already declared; declared so far: {', '.join(known)}", what=what)
        self.known = known


@message(
    "{name!r}: the application is already open; declare it before opening, "
    "or use await app.add_schedule(...), which writes it at once"
)
class DeclaredTooLateError(GandyError):
    """A declaration after the application was opened, when declarations have already been read."""

    name: str


@message("train {train} needs an input of type {input_type}; no input was given")
class MissingInputError(GandyError, TypeError):
    """A train that takes an input was given none."""

    exit_code = 2

    train: str
    input_type: str


@message(
    "{asked} needs the database of {app!r}, which is not open; write `async with app:` around it, "
    "`with app as sync:` in a script, or use app.sync"
)
class AppNotOpenError(GandyError):
    """A call needs the database of an application that is not open."""

    app: str
    asked: str


@message("{app!r} is open in another event loop; use app.sync from other threads")
class AppOpenElsewhereError(GandyError):
    """The application is open in one event loop and was used in another."""

    app: str


@message("{app!r} is open on its own database; open the harness first, and the application inside it")
class AppAlreadyOpenError(GandyError):
    """A harness was to replace the database of an open application."""

    app: str


class UnknownServiceError(GandyError):
    """A service that does not exist."""

    exit_code = 2

    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        super().__init__(f"no service is named {name!r}; the services are {', '.join(known)}")
        self.name = name
        self.known = known


@message(
    "no application is given: pass --app MODULE:NAME, set GANDY_APP, or write "
    'app = "module:name" in gandy.toml; `gandy init` creates an example'
)
class AppNotGivenError(GandyError):
    """A command that needs an application was called without one."""

    exit_code = 2


@message(
    "no application and no database are configured here: pass --app MODULE:NAME or --database URL, set "
    "GANDY_APP or GANDY_DATABASE_URL, or write gandy.toml; `gandy init` creates an example"
)
class NotConfiguredError(GandyError):
    """A command that reads was called in a folder without any configuration."""

    exit_code = 2


@message("there is no database {address} yet; `gandy up` or `gandy migrate` makes it")
class NoDatabaseError(GandyError):
    """A command would have to make the database that it reads."""

    exit_code = 2

    address: str


class OwnerNotGivenError(GandyError):
    """A command was called without an application or owner."""

    exit_code = 2

    def __init__(self, owners: tuple[str, ...]) -> None:
        super().__init__(
            "no owner is given: pass --owner NAME, --all-owners, or --app MODULE:NAME for your application; "
            f"{_known(owners)}"
        )
        self.owners = owners


class OwnerNotFoundError(GandyError):
    """The database contains nothing of this owner."""

    exit_code = 2

    def __init__(self, owner: str, owners: tuple[str, ...]) -> None:
        super().__init__(f"there is no owner {owner!r}; {_known(owners)}")
        self.owner = owner
        self.owners = owners


@message(
    "this command works only for the application {owner!r}: omit --owner and --all-owners, "
    "or name another application with --app"
)
class OtherOwnerError(GandyError):
    """A command for one application was called with other owners."""

    exit_code = 2

    owner: str


def _known(owners: tuple[str, ...]) -> str:
    return f"the database has {', '.join(owners)}" if owners else "the database has none yet"


@message("application {reference!r}: {problem}")
class AppReferenceError(GandyError):
    """An application reference that does not point to an application."""

    exit_code = 2

    reference: str
    problem: str


@message("application {reference!r} could not be imported: {location}: {problem}")
class AppLoadError(GandyError):
    """The import of the application's code raised an exception."""

    reference: str
    location: str
    problem: str


class FileInTheWayError(GandyError):
    """Files that a command would overwrite."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        named = ", ".join(str(path) for path in paths)
        super().__init__(
            f"{named} already exists; nothing was written. Choose another folder or move the file"
        )
        self.paths = paths


@message("{path}: {problem}")
class FileAccessError(GandyError):
    """A file or folder that cannot be read or written."""

    path: Path
    problem: str


_LONGEST_SHOWN = 80


class DurationFormatError(GandyError, ValueError):
    """A text that is not a duration."""

    exit_code = 2

    def __init__(self, text: str, problem: str) -> None:
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
        super().__init__(f"{shown!r} {problem}")
        self.text = text
        self.problem = problem


@message("{option} must be {expected}, not {value}")
class ValueBoundsError(GandyError, ValueError):
    """A value outside the bound of its option."""

    exit_code = 2

    option: str
    expected: str
    value: str  #: as it is shown


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One problem of the settings, and its source."""

    source: str
    key: str
    value: str | None  #: masked if secret; None if the value is not the problem
    message: str

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value}"
        return f"{self.source}: {self.key}{shown}: {self.message}"


class SettingsError(GandyError):
    """Invalid settings; every problem is listed."""

    exit_code = 2

    def __init__(self, problems: tuple[SettingProblem, ...]) -> None:
        head = f"{len(problems)} problems in the settings:"
        many = "\n".join([head, *(f"  {problem}" for problem in problems)])
        super().__init__(many if len(problems) > 1 else f"one problem in the settings: {problems[0]}")
        self.problems = problems


@message("{path}: {problem}")
class SettingsFileError(GandyError):
    """A gandy.toml that cannot be read, or that is not TOML."""

    exit_code = 2

    path: Path
    problem: str


class UntrustedFileError(SettingsFileError):
    """A gandy.toml that another user could have written; it is ignored."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            path,
            f"not read, because {reason}; give the file and its folder to the user who runs this (chown) and "
            "deny others write access (chmod go-w), or name the database by --database or GANDY_DATABASE_URL",
        )
        self.reason = reason


@message("{feature} needs an optional dependency; run: pip install 'gandy[{extra}]'")
class MissingExtraError(GandyError):
    """A feature whose optional dependency is not installed."""

    exit_code = 2

    feature: str
    extra: str
