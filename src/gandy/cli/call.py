"""What the global options of a call say, and what every command makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gandy.errors import AppNotGivenError

if TYPE_CHECKING:
    from gandy.app import Gandy
    from gandy.settings import LoadedSettings


@dataclass(frozen=True, slots=True)
class Call:
    """The global options; the settings and the application are loaded when a command asks for them."""

    app_reference: str | None
    database: str | None

    @property
    def keywords(self) -> dict[str, dict[str, object]]:
        """The settings that the options give, over all others."""
        return {"database": {"url": self.database}} if self.database else {}

    def load_settings(self) -> LoadedSettings:
        """Load the settings, for a command that needs no application."""
        from gandy.settings import load_settings  # noqa: PLC0415 `gandy --help` needs none of it

        return load_settings(keywords=self.keywords)

    def load_app(self) -> Gandy:
        """Import the application that the option, the environment or gandy.toml names."""
        from gandy.cli.app_loading import load_app  # noqa: PLC0415 `gandy --help` needs none of it

        if self.app_reference:
            return load_app(self.app_reference, directory=Path.cwd())
        loaded = self.load_settings()
        if loaded.app is None:
            raise AppNotGivenError
        return load_app(loaded.app, directory=loaded.directory)


pass_call = click.make_pass_decorator(Call)
