"""The global options of a call, and the settings and application that they select."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from gandy.errors import AppNotGivenError, OtherOwnerError
from gandy.model.owners import ALL_OWNERS, OneOwner

if TYPE_CHECKING:
    from gandy.app import Gandy
    from gandy.model.owners import Owners
    from gandy.settings import DatabaseSettings, LoadedSettings


@dataclass(frozen=True, slots=True)
class Call:
    """The global options; settings and application are loaded on demand."""

    app_reference: str | None
    database: str | None
    owner: str | None = None
    all_owners: bool = False

    def again(self, command: str) -> str:
        """Return the line that runs a command with the global options that this call was given."""
        from gandy.settings.urls import mask_url  # noqa: PLC0415 `gandy --help` needs none of it

        words = ["gandy"]
        if self.app_reference and self.app_reference != os.environ.get("GANDY_APP"):
            words += ["--app", shlex.quote(self.app_reference)]
        if self.database:
            words += ["--database", shlex.quote(mask_url(self.database))]
        return " ".join((*words, command))

    @property
    def keywords(self) -> dict[str, dict[str, object]]:
        """The settings given as options; they override all others."""
        return {"database": {"url": self.database}} if self.database else {}

    def load_settings(self) -> LoadedSettings:
        """Load the settings, for a command that needs no application."""
        from gandy.settings import load_settings  # noqa: PLC0415 `gandy --help` needs none of it

        return load_settings(keywords=self.keywords)

    def load_app(self) -> Gandy:
        """Import the application that the option, the environment or gandy.toml names."""
        app = self.find_app()
        if app is None:
            raise AppNotGivenError
        if self.all_owners or self.owner not in {None, app.name}:
            raise OtherOwnerError(app.name)
        return app

    def find_app(self) -> Gandy | None:
        """Import the application if one is named; commands that only read work without it."""
        from gandy.app.loading import find_app  # noqa: PLC0415 `gandy --help` needs none of it

        return find_app(self.app_reference, self.keywords)

    def named_owners(self, app: Gandy | None) -> Owners | None:
        """Return the selected owners, by default the application; None if neither is given."""
        if self.all_owners:
            return ALL_OWNERS
        name = self.owner or (app.name if app else None)
        return None if name is None else OneOwner(name)

    def columns(self, *columns: str) -> tuple[str, ...]:
        """Return the columns of a listing; with --all-owners the owner comes first."""
        return ("owner", *columns) if self.all_owners else columns

    def database_settings(self) -> DatabaseSettings:
        """Return the database settings of the application, or of the settings file if none is named."""
        app = self.find_app()
        return (app.settings if app else self.load_settings().settings).database


pass_call = click.make_pass_decorator(Call)
