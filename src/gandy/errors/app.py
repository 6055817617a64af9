"""Errors of applications, settings and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from pathlib import Path


class UnknownHookError(GandyError):
    """A hook was registered for an event that does not exist."""

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        super().__init__(f"no hook is named {name!r}; the hooks are {', '.join(known)}")


class DeclarationError(GandyError, ValueError):
    """An invalid declaration."""

    exit_code = 2

    def __init__(self, name: str, problem: str, *, what: str = "manifest") -> None:
        super().__init__(f"{what} {name!r}: {problem}")
        self.name = name
        self.problem = problem
        self.what = what


class DuplicateDeclarationError(DeclarationError):
    """Two declarations with the same name."""

    def __init__(self, name: str, *, what: str, known: tuple[str, ...]) -> None:
        super().__init__(name, f"it is already declared; declared so far: {', '.join(known)}", what=what)
        self.known = known


class DeclaredTooLateError(GandyError):
    """A declaration after the application was opened, when declarations have already been read."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r}: the application is already open; declare it before opening, "
            "or use await app.add_schedule(...), which writes it at once"
        )
        self.name = name


class MissingInputError(GandyError, TypeError):
    """A train that takes an input was given none."""

    exit_code = 2

    def __init__(self, train: str, input_type: str) -> None:
        super().__init__(f"train {train} needs an input of type {input_type}; no input was given")
        self.train = train
        self.input_type = input_type


class AppNotOpenError(GandyError):
    """A call needs the database of an application that is not open."""

    def __init__(self, app: str, asked: str) -> None:
        super().__init__(
            f"{asked} needs the database of {app!r}, which is not open; write `async with app:` around it, "
            "`with app as sync:` in a script, or use app.sync"
        )
        self.app = app
        self.asked = asked


class AppOpenElsewhereError(GandyError):
    """The application is open in one event loop and was used in another."""

    def __init__(self, app: str) -> None:
        super().__init__(f"{app!r} is open in another event loop; use app.sync from other threads")
        self.app = app


class UnknownServiceError(GandyError):
    """A service that does not exist."""

    exit_code = 2

    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        super().__init__(f"no service is named {name!r}; the services are {', '.join(known)}")
        self.name = name
        self.known = known


class AppNotGivenError(GandyError):
    """A command that needs an application was called without one."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            "no application is given: pass --app MODULE:NAME, set GANDY_APP, or write "
            'app = "module:name" in gandy.toml; `gandy init` creates an example'
        )


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


class OtherOwnerError(GandyError):
    """A command for one application was called with other owners."""

    exit_code = 2

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"this command works only for the application {owner!r}: omit --owner and --all-owners, "
            "or name another application with --app"
        )
        self.owner = owner


def _known(owners: tuple[str, ...]) -> str:
    return f"the database has {', '.join(owners)}" if owners else "the database has none yet"


class AppReferenceError(GandyError):
    """An application reference that does not point to an application."""

    exit_code = 2

    def __init__(self, reference: str, problem: str) -> None:
        super().__init__(f"application {reference!r}: {problem}")
        self.reference = reference
        self.problem = problem


class AppLoadError(GandyError):
    """The import of the application's code raised an exception."""

    def __init__(self, reference: str, location: str, problem: str) -> None:
        super().__init__(f"application {reference!r} could not be imported: {location}: {problem}")
        self.reference = reference
        self.location = location
        self.problem = problem


class FileInTheWayError(GandyError):
    """Files that a command would overwrite."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        named = ", ".join(str(path) for path in paths)
        super().__init__(
            f"{named} already exists; nothing was written. Choose another folder or move the file"
        )
        self.paths = paths


class FileAccessError(GandyError):
    """A file or folder that cannot be read or written."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


_LONGEST_SHOWN = 80


class DurationFormatError(GandyError, ValueError):
    """A text that is not a duration."""

    exit_code = 2

    def __init__(self, text: str, problem: str) -> None:
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
        super().__init__(f"{shown!r} {problem}")
        self.text = text
        self.problem = problem


class ValueBoundsError(GandyError, ValueError):
    """A value outside the bound of its option."""

    exit_code = 2

    def __init__(self, option: str, expected: str, value: str) -> None:
        super().__init__(f"{option} must be {expected}, not {value}")
        self.option = option
        self.expected = expected
        self.value = value  #: as it is shown


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


class SettingsFileError(GandyError):
    """A gandy.toml that cannot be read, or that is not TOML."""

    exit_code = 2

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class UntrustedFileError(SettingsFileError):
    """A gandy.toml that another user could have written; it is ignored."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            path,
            f"not read, because {reason}; give the file and its folder to the user who runs this (chown) and "
            "deny others write access (chmod go-w), or name the database by --database or GANDY_DATABASE_URL",
        )
        self.reason = reason


class MissingExtraError(GandyError):
    """A feature whose optional dependency is not installed."""

    exit_code = 2

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency; run: pip install 'gandy[{extra}]'")
        self.feature = feature
        self.extra = extra
