"""The lifecycle contracts of an application, from Python and from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gandy.errors import DuplicateDeclarationError
from gandy.lifecycle.contract.tables import gathered
from gandy.lifecycle.contract.toml import load, read
from gandy.settings.files import read_settings_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.lifecycle import Contract
    from gandy.settings import LoadedSettings


def contracts_of(declared: Sequence[Contract], loaded: LoadedSettings) -> tuple[Contract, ...]:
    """Combine the contracts of Python and of the file; the default database is the application's."""
    contracts = (*declared, *_written(loaded))
    names: list[str] = []
    for contract in contracts:
        if contract.name in names:
            raise DuplicateDeclarationError(contract.name, what="lifecycle", known=tuple(names))
        names.append(contract.name)
    return gathered(_at_home(contract, loaded.settings.database.url) for contract in contracts)


def _written(loaded: LoadedSettings) -> tuple[Contract, ...]:
    """Read the contract file, or gandy.toml, whose [lifecycle] may contain a setting besides contracts."""
    path = loaded.settings.lifecycle.contract
    if path is not None:
        return load(path)
    if loaded.file is None:
        return ()
    document = read_settings_file(loaded.file)
    section = document.get("lifecycle")
    tables = section.items() if isinstance(section, Mapping) else ()
    contracts = {name: value for name, value in tables if isinstance(value, Mapping)}
    if not contracts:
        return ()
    return read({"version": document.get("version"), "lifecycle": contracts}, source=str(loaded.file))


def _at_home(contract: Contract, url: str) -> Contract:
    is_named = contract.database is not None or contract.database_env is not None
    return contract if is_named else replace(contract, database=url)
