"""The catalogue of SQLite, and which of its values are equal."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    String,
    and_,
    bindparam,
    literal,
    literal_column,
    text,
    true,
)
from sqlalchemy.dialects.sqlite.base import ischema_names
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import Integer, NullType, Numeric, Text

from gandy.lifecycle.contract.names import GANDY_TABLES
from gandy.lifecycle.database.facts import (
    Catalogue,
    ColumnFacts,
    Comparison,
    Described,
    Doubt,
    ForeignKey,
    IndexFacts,
    Standing,
    TableName,
    Trigger,
    different_types,
)
from gandy.lifecycle.database.sampling import learned_about

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gandy.lifecycle.database.facts import ColumnType, Wanted


_NUMERIC, _TEXT, _UNTYPED = "a number", "a text", "of no type"
_BINARY = "BINARY"
# The affinity of a comparison, as coded in the bytecode of a statement.
_AFFINITY_BITS = 0x47
_AFFINITIES: Final = {0x41: _UNTYPED, 0x42: _TEXT, 0x43: _NUMERIC, 0x44: _NUMERIC, 0x45: _NUMERIC}
_ENCODING = re.compile(r"-(?:8|16LE|16BE)$")
_LONGEST = 18  # EXPLAIN truncates a longer name
_UNCLEAR = Comparison(
    hidden=Doubt("it is unknown how SQLite compares one of them", "Declare the column without COLLATE")
)
# Only the bytecode shows which column a COLLATE belongs to; ANY has another affinity in a STRICT table.
_ASK = re.compile(r"\b(?:COLLATE|ANY)\b", re.IGNORECASE)


def comparisons(connection: Connection, columns: Sequence[Row[Any]], declared: str) -> dict[str, Comparison]:
    """Return how each column of one table is compared."""
    if _ASK.search(declared) is None:
        return {row.name: _comparison(_affinity(str(row.type or "")), _BINARY) for row in columns}
    return {row.name: _asked(connection, row.table, row.name) for row in columns}


def _comparison(affinity: str, collation: str) -> Comparison:
    takes = frozenset({_UNTYPED}) if affinity == _NUMERIC else frozenset[str]()
    return Comparison(kind=affinity, takes=takes, collation=collation)


def _affinity(declared: str) -> str:
    """Apply SQLite's documented rules in their order; INTEGER, REAL and NUMERIC are compared alike."""
    name = declared.upper()
    if "INT" in name:
        return _NUMERIC
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return _TEXT
    return _UNTYPED if "BLOB" in name or not name.strip() else _NUMERIC


def _asked(connection: Connection, table: str, column: str) -> Comparison:
    """Read it from the bytecode (EXPLAIN) of a statement that compares the column."""
    question = f"EXPLAIN SELECT {_quoted(column)} = ? FROM {_quoted(table)}"  # noqa: S608  # quoted
    try:
        program = connection.exec_driver_sql(question, (None,)).all()
    except DBAPIError:  # a collation that only the application has
        return _UNCLEAR
    compared = [step for step in program if step.opcode in {"Eq", "Ne"}]
    return _sqlite_equality_read(compared[0]) if len(compared) == 1 else _UNCLEAR


def _sqlite_equality_read(step: Row[Any]) -> Comparison:
    affinity = _AFFINITIES.get(int(step.p5) & _AFFINITY_BITS)
    collation = _ENCODING.sub("", str(step.p4 or _BINARY)).strip("()").upper()
    is_whole = len(collation) < _LONGEST
    return _comparison(affinity, collation) if affinity is not None and is_whole else _UNCLEAR


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def doubt_of_key(
    key: ForeignKey, child: Described | None, parent: Described | None
) -> tuple[tuple[str, str], Doubt] | None:
    """Return the first doubtful pair of the key's columns, and the doubt."""
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


# Everything that decides what is deleted with a row: its table's declarations and all foreign keys. A scratch
# table of another part of the application changes neither.
_MARK = """
    coalesce((SELECT group_concat(sql, char(10)) FROM (
        SELECT sql FROM sqlite_master WHERE type <> 'index' AND tbl_name = {name} COLLATE NOCASE
        ORDER BY type, name
    )), '') || char(10, 10) || coalesce((SELECT group_concat(sql, char(10)) FROM (
        SELECT sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%references%' ORDER BY name
    )), '')
"""
_DECLARATIONS = text("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, tbl_name, name")
_FOREIGN_KEYS = text(
    'SELECT tables.name AS child, key.id, parents.name AS parent, key."from" AS child_column,'
    ' key."to" AS parent_column, key.on_delete FROM sqlite_master AS tables'
    " JOIN pragma_foreign_key_list(tables.name) AS key JOIN sqlite_master AS parents"
    " ON parents.type = 'table' AND parents.name = key.\"table\" COLLATE NOCASE WHERE tables.type = 'table'"
    " ORDER BY tables.name, key.id, key.seq"
)
_COLUMNS = text(
    'SELECT tables.name AS "table", field.name, field.type, field."notnull" AS is_filled, field.pk,'
    " field.hidden IN (2, 3) AS is_generated"
    " FROM sqlite_master AS tables JOIN pragma_table_xinfo(tables.name) AS field"
    " WHERE tables.type = 'table' AND tables.name IN :names AND field.hidden <> 1"
    " ORDER BY tables.name, field.cid"
).bindparams(bindparam("names", expanding=True))
_INDEXES = text(
    'SELECT tables.name AS "table", listed.name, listed."unique" AS is_unique, listed.origin,'
    " listed.partial, part.name AS column_name FROM sqlite_master AS tables"
    " JOIN pragma_index_list(tables.name) AS listed JOIN pragma_index_info(listed.name) AS part"
    " WHERE tables.type = 'table' AND tables.name IN :names ORDER BY tables.name, listed.name, part.seqno"
).bindparams(bindparam("names", expanding=True))
# SQLite stores a declaration from the trigger's name on, after CREATE TRIGGER.
_TRIGGER_EVENT = re.compile(
    r"""CREATE\s+TRIGGER\s+(?:"(?:[^"]|"")*"|'(?:[^']|'')*'|`(?:[^`]|``)*`|\[[^]]*\]|[^\s"'`[]+)\s*
    (?:(?:BEFORE|AFTER|INSTEAD\s+OF)\s+)?(DELETE|INSERT|UPDATE)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_TELLING = {"schema_version", "manifest_group", "work_queue", "dead_letter"}  # together in Gandy's file only
_STATE = "gandy_lifecycle_"


@dataclass(frozen=True, slots=True)
class _Declared:
    """One row of sqlite_master."""

    type: str
    name: str
    table: str
    sql: str | None


_Declarations = tuple[_Declared, ...]


@dataclass(frozen=True, slots=True)
class _Index:
    facts: IndexFacts
    is_of_key: bool  # index of the primary key; an INTEGER PRIMARY KEY (rowid) has none


def read_catalogue(connection: Connection, wanted: Sequence[Wanted] | None) -> Catalogue:
    """Read these tables and all tables that refer to them; None reads every application table."""
    declared = tuple(_Declared(*row) for row in connection.execute(_DECLARATIONS))
    catalogue = _known(connection, declared, wanted)
    return replace(catalogue, marks={table: _mark(table.name, declared) for table in catalogue.tables})


def unchanged(marks: Mapping[TableName, str]) -> ColumnElement[bool]:
    """Return a condition: the declarations that concern these tables are unchanged."""
    return and_(true(), *(_is_marked(table.name, mark) for table, mark in marks.items()))


def _is_marked(table: str, mark: str) -> ColumnElement[bool]:
    name = "'" + table.replace("'", "''") + "'"
    return literal_column(_MARK.format(name=name), String) == literal(mark, String)


def _mark(table: str, declared: _Declarations) -> str:
    """Compute the same text as the SQL expression `_MARK`."""
    texts = [each for each in declared if each.type != "index" and each.sql is not None]
    mine = sorted((each.type, each.name, each.sql) for each in texts if each.table.lower() == table.lower())
    keys = sorted((each.name, each.sql) for each in texts if each.type == "table" and _refers(each.sql))
    return "\n".join(str(each[-1]) for each in mine) + "\n\n" + "\n".join(str(each[-1]) for each in keys)


def _refers(declaration: str | None) -> bool:
    return declaration is not None and "references" in declaration.lower()


def _known(connection: Connection, declared: _Declarations, wanted: Sequence[Wanted] | None) -> Catalogue:
    digest = sha256(repr(declared).encode(errors="surrogatepass")).digest()
    question = ("catalogue", digest, None if wanted is None else tuple(wanted))
    known = learned_about(connection).recall(question)
    if isinstance(known, Catalogue):
        return known
    found = _read(connection, declared, wanted)
    learned_about(connection).keep(question, found)
    return found


def _read(connection: Connection, declared: _Declarations, wanted: Sequence[Wanted] | None) -> Catalogue:
    tables = {each.name for each in declared if each.type == "table" and not each.name.startswith("sqlite_")}
    whole = Catalogue(
        default_schema=None,
        search_path=(None,),
        tables={},
        foreign_keys=_foreign_keys(connection),
        own_tables=_own_tables(tables),
    )
    names = tables if wanted is None else {name.name for name in whole.with_referring(wanted)} & tables
    own = {name for name in tables if name.startswith(_STATE)}
    described = _described(connection, names | own, declared)
    return replace(
        whole,
        tables={name: facts for name, facts in described.items() if name.name in names},
        foreign_keys=tuple(_judged(key, described) for key in whole.foreign_keys),
        state=frozenset(
            (name, column) for name in own for column in described[TableName(None, name)].columns
        ),
    )


def _foreign_keys(connection: Connection) -> tuple[ForeignKey, ...]:
    """Read the pragma: SQLAlchemy ignores the ON DELETE of a key that is declared with its column."""
    keys: dict[tuple[str, int], list[Row[Any]]] = {}
    for row in connection.execute(_FOREIGN_KEYS):
        keys.setdefault((row.child, row.id), []).append(row)
    return tuple(_foreign_key(child, rows) for (child, _), rows in keys.items())


def _foreign_key(child: str, rows: Sequence[Row[Any]]) -> ForeignKey:
    return ForeignKey(
        name="",
        child=TableName(None, child),
        columns=tuple(str(row.child_column) for row in rows),
        parent=TableName(None, str(rows[0].parent)),
        parent_columns=tuple(str(row.parent_column) for row in rows if row.parent_column is not None),
        on_delete=str(rows[0].on_delete).upper(),
    )


def _spelled_out(key: ForeignKey, parent: Described | None) -> ForeignKey:
    """Normalise the parent's columns: a key may spell them in another case, or omit them."""
    if parent is None:
        return key
    spelling = {name.casefold(): name for name in parent.columns}
    named = tuple(spelling.get(column.casefold(), column) for column in key.parent_columns)
    return replace(key, parent_columns=named or parent.primary_key)


def _judged(key: ForeignKey, described: Mapping[TableName, Described]) -> ForeignKey:
    child, parent = described.get(key.child), described.get(key.parent)
    clear = _spelled_out(key, parent)
    return replace(clear, doubt=doubt_of_key(clear, child, parent))


def _own_tables(tables: set[str]) -> frozenset[TableName]:
    """Return Gandy's tables if it is Gandy's file; else a table of such a name is the application's."""
    mine = GANDY_TABLES if tables >= _TELLING else frozenset[str]()
    return frozenset(TableName(None, name) for name in tables & mine)


def _described(
    connection: Connection, names: Iterable[str], declared: _Declarations
) -> dict[TableName, Described]:
    columns: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(_COLUMNS, {"names": sorted(names)}):
        columns.setdefault(row.table, []).append(row)
    indexes: dict[str, dict[str, list[Row[Any]]]] = {}
    for row in connection.execute(_INDEXES, {"names": sorted(names)}):
        indexes.setdefault(row.table, {}).setdefault(row.name, []).append(row)
    texts = {each.name: each.sql or "" for each in declared if each.type == "index"}
    tables = {each.name: each.sql or "" for each in declared if each.type == "table"}
    return {
        TableName(None, name): _table(
            rows,
            compared=comparisons(connection, rows, tables.get(name, "")),
            indexes=[_index(parts, texts.get(parts[0].name, "")) for parts in indexes.get(name, {}).values()],
            standing=_standing(name, declared),
        )
        for name, rows in columns.items()
    }


def _table(
    columns: Sequence[Row[Any]],
    *,
    compared: Mapping[str, Comparison],
    indexes: Sequence[_Index],
    standing: Standing,
) -> Described:
    key = sorted((row for row in columns if row.pk), key=lambda row: int(row.pk))
    has_key_index = any(index.is_of_key for index in indexes)
    is_rowid = len(key) == 1 and str(key[0].type).upper() == "INTEGER" and not has_key_index
    filled = {row.name for row in columns if row.is_filled} | ({key[0].name} if is_rowid else set())
    return Described(
        columns={
            row.name: ColumnFacts(
                row.name,
                _type(str(row.type or "")),
                row.name not in filled,
                is_generated=bool(row.is_generated),
                comparison=compared[row.name],
            )
            for row in columns
        },
        primary_key=tuple(row.name for row in key),
        indexes=tuple(index.facts for index in indexes if not index.is_of_key),
        standing=standing,
    )


def _index(parts: Sequence[Row[Any]], definition: str) -> _Index:
    first = parts[0]
    facts = IndexFacts(
        name=first.name,
        columns=tuple(part.column_name or "" for part in parts),  # an expression has no name
        is_unique=bool(first.is_unique),
        is_partial=bool(first.partial),
        definition=definition,
    )
    return _Index(facts, is_of_key=first.origin == "pk")


def _type(declared: str) -> ColumnType:
    """The type by its name, or else by the rules of SQLite's affinity."""
    name = declared.partition("(")[0].strip().upper()
    known: type[ColumnType] | None = ischema_names.get(name)
    if known is not None:
        return known()
    if "INT" in name:
        return Integer()
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return Text()
    return NullType() if "BLOB" in name or not name else Numeric()


def _standing(table: str, declared: _Declarations) -> Standing:
    """Look up triggers only: a process that can open the file may do everything."""
    fired = [
        (Trigger(TableName(None, table), each.name, "ignore" in (each.sql or "").casefold()), each.sql or "")
        for each in declared
        if each.type == "trigger" and each.table.casefold() == table.casefold()
    ]
    return Standing(
        delete_triggers=tuple(trigger for trigger, sql in fired if _fires_on("DELETE", sql)),
        update_triggers=tuple(trigger for trigger, sql in fired if _fires_on("UPDATE", sql)),
    )


def _fires_on(event: str, declaration: str) -> bool:
    """Whether a trigger fires on the event; True if its declaration cannot be parsed."""
    found = _TRIGGER_EVENT.match(declaration)
    return found is None or found[1].upper() == event
