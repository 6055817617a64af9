"""The migrations that a database still needs, as a script that a person can read and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.store.statements import load_statements

if TYPE_CHECKING:
    from gandy.store.drivers.migrate import Migration, SchemaState
    from gandy.store.statements import Dialect

#: Names mean PostgreSQL's own objects, whatever the search_path of the person who runs the script.
_PIN: Final = "SET LOCAL search_path = pg_catalog, pg_temp;\n"


def pending_script(state: SchemaState, dialect: Dialect) -> str:
    """Write what brings a database from this state up to date; empty where nothing is missing."""
    return "\n".join(_transaction(migration, dialect) for migration in state.pending(dialect))


def _transaction(migration: Migration, dialect: Dialect) -> str:
    record = load_statements(dialect)["record_migration"]
    values = {"version": migration.version, "compatible_from": migration.compatible_from}
    for name, value in values.items():
        record = record.replace(f"%({name})s", str(value)).replace(f":{name}", str(value))
    pin = _PIN if dialect == "postgres" else ""
    return f"-- {migration.name}\nBEGIN;\n{pin}{migration.sql.strip()}\n{record.strip()};\nCOMMIT;\n"
