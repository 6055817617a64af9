"""Privileges that a database role needs, and the grants that it lacks."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from gandy.errors import DatabaseRefusedError
from gandy.store.drivers.migrate import load_migrations
from gandy.store.statements import load_statements, statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation, Rows


SCHEMA: Final = "gandy"
#: Tables that other applications may read, as the reference of the tables says; all others are private.
READABLE: Final = ("manifest_group", "manifest", "work_queue", "metadata", "log", "dead_letter", "worker")

_ORDER: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
#: Statements that only the owner of the schema runs.
_OWNERS_OWN: Final = frozenset({"record_migration"})
_COMMENTS_AND_TEXTS: Final = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_MENTION: Final = re.compile(
    r"(?P<verb>\bINSERT INTO|(?<!FOR )(?<!DO )\bUPDATE|\bDELETE FROM)?\s+gandy\.(?P<table>\w+)\b(?!\()"
)
_SEQUENCE: Final = re.compile(r"nextval\('gandy\.(\w+)'\)")


@cache
def table_privileges() -> Mapping[str, tuple[str, ...]]:
    """Return the privileges that a role needs on each table and view to run services."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, text in load_statements("postgres").items():
        if name not in _OWNERS_OWN:
            for table, privilege in _needs(_COMMENTS_AND_TEXTS.sub("''", text)):
                found[table].add(privilege)
    return {table: tuple(each for each in _ORDER if each in found[table]) for table in sorted(found)}


@cache
def sequences() -> tuple[str, ...]:
    """Return the sequences that statements and column defaults use."""
    texts = [*load_statements("postgres").values(), *(each.sql for each in load_migrations("postgres"))]
    return tuple(sorted({name for text in texts for name in _SEQUENCE.findall(text)}))


def _needs(text: str) -> Iterator[tuple[str, str]]:
    for mention in _MENTION.finditer(text):
        table, verb = mention["table"], mention["verb"]
        if verb is None:
            yield table, "SELECT"
            continue
        yield table, verb.split()[0]
        if verb != "INSERT INTO":
            yield table, "SELECT"  # the condition reads rows
        elif "ON CONFLICT" in (rest := _until_next_insert(text, mention.end())):
            yield table, "SELECT"
            if "DO UPDATE" in rest:
                yield table, "UPDATE"


def _until_next_insert(text: str, start: int) -> str:
    end = text.find("INSERT INTO", start)
    return text[start : end if end >= 0 else len(text)]


@dataclass(frozen=True, slots=True)
class Grants:
    """The statements for one role, by purpose; a superuser must run them."""

    role: str
    owner: str | None  #: of the schema; None if it does not exist
    is_migrated: bool
    maintain: tuple[str, ...]  #: migrate, create and drop day partitions
    run: tuple[str, ...]  #: services, the command line, the dashboard; once the tables exist
    read: tuple[str, ...]  #: the tables that other applications may read


def find_grants(role: str) -> Operation[Grants]:
    """Read which objects exist, and return the statements that the role needs."""
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
    """Raise if the role lacks a privilege that a service needs: later, the service would retry forever."""
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
    """Return the GRANT statement for an object that services need, and the command that prints all grants."""
    name = quoted(role) if role else "the role"
    whole = f"gandy migrate --grants {role or 'ROLE'} prints all grants that a role needs"
    found = _grant(object_name, name)
    return f"run as the owner: {found} {whole}" if found else whole


def _grant(object_name: str, name: str) -> str | None:
    if object_name in table_privileges():
        return table_grant(object_name, name)
    if object_name in sequences():
        return sequence_grant(object_name, name)
    return schema_grant(name) if object_name == SCHEMA else None


def table_grant(table: str, name: str) -> str:
    """Return the GRANT statement for a table, for a role that runs services."""
    return f"GRANT {', '.join(table_privileges()[table])} ON {SCHEMA}.{table} TO {name};"


def sequence_grant(sequence: str, name: str) -> str:
    """Return the GRANT statement for a sequence."""
    return f"GRANT USAGE ON SEQUENCE {SCHEMA}.{sequence} TO {name};"


def schema_grant(name: str) -> str:
    """Return the GRANT statement for the schema."""
    return f"GRANT USAGE ON SCHEMA {SCHEMA} TO {name};"


def quoted(role: str) -> str:
    """Quote a role's name as an identifier; safe for any text."""
    return '"' + role.replace('"', '""') + '"'


def _to_run(name: str) -> tuple[str, ...]:
    tables = (table_grant(table, name) for table in table_privileges())
    return (schema_grant(name), *tables, *(sequence_grant(each, name) for each in sequences()))


def _to_read(name: str) -> tuple[str, ...]:
    return (schema_grant(name), *(f"GRANT SELECT ON {SCHEMA}.{table} TO {name};" for table in READABLE))
