"""What can be wrong with the settings, durations and extras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from pathlib import Path


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
