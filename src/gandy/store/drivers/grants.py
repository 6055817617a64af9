"""What a role has to be granted on PostgreSQL: to maintain the tables, to run on them, or to read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.errors import DatabaseRefusedError
from gandy.store.drivers.privileges import READABLE, SCHEMA, sequences, table_privileges
from gandy.store.statements import statement

if TYPE_CHECKING:
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation, Rows


@dataclass(frozen=True, slots=True)
class Grants:
    """The statements for one role, by what it is to do; to be run by a superuser."""

    role: str
    owner: str | None  #: of the schema; None where there is none
    is_migrated: bool
    maintain: tuple[str, ...]  #: migrate, make and drop the days of history
    run: tuple[str, ...]  #: services, the command line, the dashboard; once the tables are there
    read: tuple[str, ...]  #: the tables that outsiders may read


def find_grants(role: str) -> Operation[Grants]:
    """Look which objects there are, and write what the role needs."""
    name = quoted(role)
    takeover = yield statement("list_takeover", role=role, name=name)
    found = yield statement("schema_owner")
    return Grants(
        role=role,
        owner=found[0].owner if found else None,
        is_migrated=bool(found) and found[0].is_migrated,
        maintain=tuple(row.command for row in takeover),
        run=_to_run(name),
        read=_to_read(name),
    )


async def refuse_missing(database: Database) -> None:
    """Raise where the role lacks something that a service needs: later it would wait for it without end."""
    rows = await database.read(_list_missing()) if database.dialect == "postgres" else []
    lacking = list(dict.fromkeys(row.object for row in rows))
    if lacking:
        more = f" and {len(lacking) - 1} more" if lacking[1:] else ""
        problem = f"permission denied for {SCHEMA}.{lacking[0]}{more}"
        raise DatabaseRefusedError(problem, advice(lacking[0], rows[0].role))


def _list_missing() -> Operation[Rows]:
    needed = [(table, each) for table, several in table_privileges().items() for each in several]
    needed += [(sequence, "USAGE") for sequence in sequences()]
    objects, privileges = zip(*needed, strict=True)
    return (yield statement("list_missing_privileges", objects=list(objects), privileges=list(privileges)))


def advice(object_name: str, role: str | None) -> str:
    """Name the statement that grants what is missing on an object, where it is one that services need."""
    name = quoted(role) if role else "the role"
    whole = f"gandy migrate --grants {role or 'ROLE'} prints all that a role needs"
    found = _grant(object_name, name)
    return f"run as the owner: {found} {whole}" if found else whole


def _grant(object_name: str, name: str) -> str | None:
    if object_name in table_privileges():
        return table_grant(object_name, name)
    if object_name in sequences():
        return sequence_grant(object_name, name)
    return schema_grant(name) if object_name == SCHEMA else None


def table_grant(table: str, name: str) -> str:
    """Write what a role needs on one table to run."""
    return f"GRANT {', '.join(table_privileges()[table])} ON {SCHEMA}.{table} TO {name};"


def sequence_grant(sequence: str, name: str) -> str:
    """Write what a role needs on a sequence."""
    return f"GRANT USAGE ON SEQUENCE {SCHEMA}.{sequence} TO {name};"


def schema_grant(name: str) -> str:
    """Write what a role needs to look up anything in the schema."""
    return f"GRANT USAGE ON SCHEMA {SCHEMA} TO {name};"


def quoted(role: str) -> str:
    """Write a role's name as an identifier; any text is safe in it."""
    return '"' + role.replace('"', '""') + '"'


def _to_run(name: str) -> tuple[str, ...]:
    tables = (table_grant(table, name) for table in table_privileges())
    return (schema_grant(name), *tables, *(sequence_grant(each, name) for each in sequences()))


def _to_read(name: str) -> tuple[str, ...]:
    return (schema_grant(name), *(f"GRANT SELECT ON {SCHEMA}.{table} TO {name};" for table in READABLE))
