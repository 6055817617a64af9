"""What can be wrong with a call of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from pathlib import Path


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
