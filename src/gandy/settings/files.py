"""gandy.toml: where it is looked for, and its reading."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from gandy.errors import SettingsFileError

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "gandy.toml"


def find_settings_file(directory: Path) -> Path | None:
    """Look in the folder and in those above it, up to the root of the project (the folder with .git)."""
    for folder in (directory, *directory.parents):
        path = folder / FILE_NAME
        if path.is_file():
            return path
        if (folder / ".git").exists():
            return None
    return None


def read_settings_file(path: Path) -> dict[str, object]:
    """Read the whole document."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsFileError(path, f"is not TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise SettingsFileError(path, "is not text in UTF-8") from error
    except OSError as error:
        raise SettingsFileError(path, f"cannot be read: {error.strerror}") from error
