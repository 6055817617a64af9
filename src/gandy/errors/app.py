"""Errors of applications, settings and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from pathlib import Path


class UnknownHookError(GandyError):
    """A hook was asked for on an event that does not exist."""

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        super().__init__(f"no hook is named {name!r}; the hooks are {', '.join(known)}")


class DeclarationError(GandyError, ValueError):
    """Something declared that cannot be kept."""

    exit_code = 2

    def __init__(self, name: str, problem: str, *, what: str = "manifest") -> None:
        super().__init__(f"{what} {name!r}: {problem}")
        self.name = name
        self.problem = problem
        self.what = what


class DuplicateDeclarationError(DeclarationError):
    """Two declarations with one name."""

    def __init__(self, name: str, *, what: str, known: tuple[str, ...]) -> None:
        super().__init__(name, f"it is declared already; declared so far: {', '.join(known)}", what=what)
        self.known = known


class DeclaredTooLateError(GandyError):
    """Something was declared after the application was opened, when nobody would look at it any more."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r}: the application is open already; declare it before opening, "
            "or use await app.add_schedule(...), which writes it at once"
        )
        self.name = name


class MissingInputError(GandyError, TypeError):
    """A train that takes an input was given none."""

    exit_code = 2

    def __init__(self, train: str, input_type: str) -> None:
        super().__init__(f"train {train} takes an input of type {input_type}; none was given")
        self.train = train
        self.input_type = input_type


class AppNotOpenError(GandyError):
    """The application was asked for something that needs its database while it is closed."""

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
    """A service was asked for that does not exist."""

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
            "which application? Pass --app MODULE:NAME, set GANDY_APP, or write "
            'app = "module:name" in gandy.toml; `gandy init` writes a first one'
        )


class OwnerNotGivenError(GandyError):
    """A command was called without an application, and does not say whose rows it means."""

    exit_code = 2

    def __init__(self, owners: tuple[str, ...]) -> None:
        super().__init__(
            "whose? Pass --owner NAME or --all-owners, or --app MODULE:NAME for an application of yours; "
            f"{_known(owners)}"
        )
        self.owners = owners


class OwnerNotFoundError(GandyError):
    """The database holds nothing of this owner."""

    exit_code = 2

    def __init__(self, owner: str, owners: tuple[str, ...]) -> None:
        super().__init__(f"there is no owner {owner!r}; {_known(owners)}")
        self.owner = owner
        self.owners = owners


class OtherOwnerError(GandyError):
    """A command that works for its application was told to work for others."""

    exit_code = 2

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"this command works for the application {owner!r} alone: leave --owner and --all-owners out, "
            "or name another application with --app"
        )
        self.owner = owner


def _known(owners: tuple[str, ...]) -> str:
    return f"the database has {', '.join(owners)}" if owners else "the database has none yet"


class AppReferenceError(GandyError):
    """An application reference that leads to no application."""

    exit_code = 2

    def __init__(self, reference: str, problem: str) -> None:
        super().__init__(f"application {reference!r}: {problem}")
        self.reference = reference
        self.problem = problem


class AppLoadError(GandyError):
    """The application's own code raised while it was imported."""

    def __init__(self, reference: str, location: str, problem: str) -> None:
        super().__init__(f"application {reference!r} could not be imported: {location}: {problem}")
        self.reference = reference
        self.location = location
        self.problem = problem


class FileInTheWayError(GandyError):
    """Files that a command would have overwritten."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        named = ", ".join(str(path) for path in paths)
        super().__init__(f"{named} already there; nothing was written. Choose another folder or move it away")
        self.paths = paths


class FileAccessError(GandyError):
    """A file or folder that the system does not let us read or write."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


_LONGEST_SHOWN = 80


class DurationFormatError(GandyError, ValueError):
    """A text that does not read as a duration."""

    exit_code = 2

    def __init__(self, text: str, problem: str) -> None:
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
        super().__init__(f"{shown!r} {problem}")
        self.text = text
        self.problem = problem


class ValueBoundsError(GandyError, ValueError):
    """A value outside of what its option may be."""

    exit_code = 2

    def __init__(self, option: str, expected: str, value: str) -> None:
        super().__init__(f"{option} must be {expected}, not {value}")
        self.option = option
        self.expected = expected
        self.value = value  #: as it is shown


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One thing that is wrong with the settings, and where it was written."""

    source: str
    key: str
    value: str | None  #: masked where it is a secret; None where the value is not the problem
    message: str

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value}"
        return f"{self.source}: {self.key}{shown}: {self.message}"


class SettingsError(GandyError):
    """The settings hold values that cannot be used; every problem is listed."""

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
    """A gandy.toml that another user could have written; nothing of it is used."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            path,
            f"not read, because {reason}; give the file and its folder to the user who runs this (chown) and "
            "let no others write (chmod go-w), or name the database by --database or GANDY_DATABASE_URL",
        )
        self.reason = reason


class MissingExtraError(GandyError):
    """A feature whose optional dependency is not installed."""

    exit_code = 2

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency; run: pip install 'gandy[{extra}]'")
        self.feature = feature
        self.extra = extra
