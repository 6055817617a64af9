"""SQLite: the affinity and the collation that a column is compared with.

A key compares with those of the parent's column; a statement uses the child's collation, and takes the
affinity from both. Where the two columns do not have the same ones, the answers may differ.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.database.equality import Comparison, Doubt, different_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from gandy.lifecycle.database.facts import Described, ForeignKey

_NUMERIC, _TEXT, _UNTYPED = "a number", "a text", "of no type"
_BINARY = "BINARY"
# The affinity of a comparison as SQLite's own program for a statement gives it.
_AFFINITY_BITS = 0x47
_AFFINITIES: Final = {0x41: _UNTYPED, 0x42: _TEXT, 0x43: _NUMERIC, 0x44: _NUMERIC, 0x45: _NUMERIC}
_ENCODING = re.compile(r"-(?:8|16LE|16BE)$")
_LONGEST = 18  # a longer name is shown in part
_UNCLEAR = Comparison(
    hidden=Doubt("SQLite does not say how it compares one of them", "Declare the column without COLLATE")
)
# Only the program says what COLLATE belongs to; ANY means another affinity in a STRICT table.
_ASK = re.compile(r"\b(?:COLLATE|ANY)\b", re.IGNORECASE)


def comparisons(connection: Connection, columns: Sequence[Row[Any]], declared: str) -> dict[str, Comparison]:
    """How each column of one table is compared."""
    if _ASK.search(declared) is None:
        return {row.name: _comparison(_affinity(str(row.type or "")), _BINARY) for row in columns}
    return {row.name: _asked(connection, row.table, row.name) for row in columns}


def _comparison(affinity: str, collation: str) -> Comparison:
    takes = frozenset({_UNTYPED}) if affinity == _NUMERIC else frozenset[str]()
    return Comparison(kind=affinity, takes=takes, collation=collation)


def _affinity(declared: str) -> str:
    """By the order of the rules that SQLite documents; INTEGER, REAL and NUMERIC are compared alike."""
    name = declared.upper()
    if "INT" in name:
        return _NUMERIC
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return _TEXT
    return _UNTYPED if "BLOB" in name or not name.strip() else _NUMERIC


def _asked(connection: Connection, table: str, column: str) -> Comparison:
    """From the program of a statement that compares the column; it does not run."""
    question = f"EXPLAIN SELECT {_quoted(column)} = ? FROM {_quoted(table)}"  # noqa: S608  # quoted
    try:
        program = connection.exec_driver_sql(question, (None,)).all()
    except DBAPIError:  # a collation that only the application has
        return _UNCLEAR
    compared = [step for step in program if step.opcode in {"Eq", "Ne"}]
    return _read(compared[0]) if len(compared) == 1 else _UNCLEAR


def _read(step: Row[Any]) -> Comparison:
    affinity = _AFFINITIES.get(int(step.p5) & _AFFINITY_BITS)
    collation = _ENCODING.sub("", str(step.p4 or _BINARY)).strip("()").upper()
    is_whole = len(collation) < _LONGEST
    return _comparison(affinity, collation) if affinity is not None and is_whole else _UNCLEAR


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def doubt_of_key(
    key: ForeignKey, child: Described | None, parent: Described | None
) -> tuple[tuple[str, str], Doubt] | None:
    """The first pair of the key's columns that is in doubt, and why."""
    if child is None or parent is None:
        return None
    if len(key.columns) != len(key.parent_columns):
        pair = (", ".join(key.columns), ", ".join(key.parent_columns))
        return pair, different_types(f"{len(key.columns)} columns", f"{len(key.parent_columns)} columns")
    for mine, theirs in zip(key.columns, key.parent_columns, strict=True):
        if theirs not in parent.columns:
            doubt: Doubt | None = Doubt(f"{key.parent} has no column {theirs}", "Correct the foreign key")
        else:
            doubt = child.columns[mine].comparison.against(parent.columns[theirs].comparison)
        if doubt is not None:
            return (mine, theirs), doubt
    return None
