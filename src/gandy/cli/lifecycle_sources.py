"""Which contracts and which database a lifecycle command is about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from gandy.errors import ContractTargetError
from gandy.lifecycle import load
from gandy.lifecycle.contract.tables import gathered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.cli.call import Call
    from gandy.lifecycle import Contract
    from gandy.lifecycle.contract.matrix import MatrixRow
    from gandy.settings import LoadedSettings


@dataclass(frozen=True, slots=True)
class Sources:
    """The options of one command; the application is looked at only where they leave something open."""

    call: Call
    files: Sequence[str]
    target: str | None

    def contracts(self) -> list[Contract]:
        """The contracts of the files, else the application's own; none at all is a wrong call."""
        found = self._of_files() if self.files else self._of_app()
        if not found:
            raise click.UsageError("which contract? Pass --contract FILE, or name an app that declares one.")
        return list(gathered(found, self.target))

    def database(self) -> str:
        """The one database that a command looks at."""
        if self.target is not None:
            return self.target
        if self.files:
            return self._of_files()[0].target()
        home = self._home()
        if home is None:
            raise click.UsageError("pass --target URL, a --contract FILE that names a database, or an app")
        return home.settings.database.url

    def bounding(self, database: str) -> list[Contract]:
        """The contracts that bound tables of this database."""
        if self.files:
            return self._of_files()
        return [contract for contract in self._of_app() if _is_for(contract, database)]

    def other_bounds(self, database: str) -> list[MatrixRow]:
        """What else bounds tables of this database: Gandy's own upkeep, and deletions that are scheduled."""
        return [*self._own_tables(database), *self._scheduled(database)]

    def _own_tables(self, database: str) -> list[MatrixRow]:
        from gandy.store.drivers.database import table_name  # noqa: PLC0415 the same
        from gandy.upkeep.declaration import own_matrix  # noqa: PLC0415 only an audit asks

        home = self._home()
        if home is None or home.settings.database.url != database:
            return []
        return [replace(row, table=table_name(database, row.table)) for row in own_matrix(home.settings)]

    def _scheduled(self, database: str) -> list[MatrixRow]:
        from gandy.app.delete_old_rows import old_rows_matrix  # noqa: PLC0415 only an audit asks

        app = self.call.find_app()
        if app is None:
            return []
        home = app.loaded_settings.settings.database.url
        return list(old_rows_matrix(app.declarations, database, home=home))

    def _of_files(self) -> list[Contract]:
        return [contract for file in self.files for contract in load(file)]

    def _of_app(self) -> list[Contract]:
        from gandy.app.contracts import contracts_of  # noqa: PLC0415 a contract file needs no application

        app = self.call.find_app()
        return list(app.contracts if app else contracts_of((), self.call.load_settings()))

    def _home(self) -> LoadedSettings | None:
        """Where Gandy's own database is, if anybody said so."""
        app = self.call.find_app()
        loaded = app.loaded_settings if app else self.call.load_settings()
        is_named = app is not None or loaded.origins["database.url"].kind != "default"
        return loaded if is_named else None


def _is_for(contract: Contract, database: str) -> bool:
    try:
        return contract.target() == database
    except ContractTargetError:  # its variable is not set here
        return False
