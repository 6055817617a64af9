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
