"""Which privileges the package's own statements need, read from the statements themselves."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Final

from gandy.store.drivers.migrate import load_migrations
from gandy.store.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMA: Final = "gandy"
#: What outsiders may read, as the reference of the tables says; any other table is closed to them.
READABLE: Final = ("manifest_group", "manifest", "work_queue", "metadata", "log", "dead_letter", "worker")

_ORDER: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
#: Statements that only a role which owns the schema sends.
_OWNERS_OWN: Final = frozenset({"record_migration"})
_COMMENTS_AND_TEXTS: Final = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_MENTION: Final = re.compile(
    r"(?P<verb>\bINSERT INTO|(?<!FOR )(?<!DO )\bUPDATE|\bDELETE FROM)?\s+gandy\.(?P<table>\w+)\b(?!\()"
)
_SEQUENCE: Final = re.compile(r"nextval\('gandy\.(\w+)'\)")


@cache
def table_privileges() -> Mapping[str, tuple[str, ...]]:
    """Say what a role that runs services needs on each table and view."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, text in load_statements("postgres").items():
        if name not in _OWNERS_OWN:
            for table, privilege in _needs(_COMMENTS_AND_TEXTS.sub("''", text)):
                found[table].add(privilege)
    return {table: tuple(each for each in _ORDER if each in found[table]) for table in sorted(found)}


@cache
def sequences() -> tuple[str, ...]:
    """Name the sequences that statements and defaults of columns take numbers from."""
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
            yield table, "SELECT"  # of the rows that the condition finds
        elif "ON CONFLICT" in (rest := _until_next_insert(text, mention.end())):
            yield table, "SELECT"
            if "DO UPDATE" in rest:
                yield table, "UPDATE"


def _until_next_insert(text: str, start: int) -> str:
    end = text.find("INSERT INTO", start)
    return text[start : end if end >= 0 else len(text)]
