"""A database of either kind that the fuzz makes, fills, empties and reads with its own statements."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from tests.lifecycle.fuzz.shapes import MARK, Column, Limit, Link, Row, Shape, TableShape, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_TYPES = {
    "postgresql": {
        "int": "integer",
        "small": "integer",
        "bool": "boolean",
        "flag_int": "integer",
        "flag_text": "text",
        "state": "text",
        "uuid": "uuid",
        "text": "text",
        "timestamptz": "timestamptz",
        "timestamp": "timestamp",
        "date": "date",
    },
    "sqlite": {
        "int": "INTEGER",
        "small": "INTEGER",
        "bool": "BOOLEAN",
        "flag_int": "INTEGER",
        "flag_text": "TEXT",
        "state": "TEXT",
        "uuid": "TEXT",
        "text": "TEXT",
        "iso": "TEXT",
    },
}
_CAST = frozenset({"timestamptz", "timestamp", "date", "uuid"})  # read as text: infinity is no datetime
_STATE = {
    "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename ~ '^gandy_'",
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'gandy!_%' ESCAPE '!'",
}
_WATCH = """
CREATE OR REPLACE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RETURN OLD; END $$
"""
_ROLE = "gandy_fuzz_sweeper"
_MAKE_ROLE = f"""
DO $$ BEGIN
    PERFORM pg_advisory_xact_lock(1);
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{_ROLE}') THEN CREATE ROLE {_ROLE}; END IF;
END $$
"""


class Bench:
    """One database for many cases."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = "sqlite" if url.startswith("sqlite") else "postgresql"
        self._connection: Any = None
        self._state: list[str] = []

    def connect(self) -> Any:  # noqa: ANN401  # of either driver
        """A connection that commits each statement."""
        if self.database == "sqlite":
            return sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None, timeout=10)
        connection: Any = psycopg.connect(self.url, autocommit=True)
        connection.execute("SET TIME ZONE 'UTC'")
        return connection

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def make(self, shape: Shape) -> None:
        """Replace everything in the database by an empty schema."""
        self._clear()
        self._state = []
        for statement in self.statements(shape):
            self._connection.execute(statement)

    def sweeping_url(self, shape: Shape) -> str:
        """The URL of the role that sweeps."""
        joint = "&" if "?" in self.url else "?"
        return self.url if shape.limit is None else f"{self.url}{joint}options=-crole%3D{_ROLE}"

    def statements(self, shape: Shape) -> Iterator[str]:
        """What creates a schema."""
        for schema in sorted({table.schema for table in shape.tables if table.schema} - {"public"}):
            yield f"CREATE SCHEMA {quoted(schema)}"
        for table in shape.tables:
            yield self._create(table, shape)
            for number in range(2 if table.is_partitioned else 0):
                part = named(replace(table, name=f"{table.name} part {number}"))
                values = f"WITH (MODULUS 2, REMAINDER {number})"
                yield f"CREATE TABLE {part} PARTITION OF {named(table)} FOR VALUES {values}"
        for link in shape.links if self.database == "postgresql" else ():
            if link.has_key:
                yield f"ALTER TABLE {named(shape.table(link.child))} ADD {_constraint(link, shape)}"
        for number, link in enumerate(shape.links[::2]):  # the others are found without an index
            child = named(shape.table(link.child))
            yield f"CREATE INDEX {quoted(f'by link {number}')} ON {child} ({_list(link.columns)})"
        for table in shape.tables:
            yield from self._trigger(table)
        if shape.limit is not None:
            yield from _limited(shape, shape.limit)

    def _clear(self) -> None:
        if self.database == "sqlite":
            self.close()
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(self.url.removeprefix("sqlite:///") + suffix).unlink(missing_ok=True)
            self._connection = self.connect()
            self._connection.execute("PRAGMA journal_mode = MEMORY")
            self._connection.execute("PRAGMA synchronous = OFF")
            return
        if self._connection is None:
            self._connection = self.connect()
            self._connection.execute("SET client_min_messages = warning")
        found = self._connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
        ).fetchall()
        for (schema,) in found:
            self._connection.execute(f"DROP SCHEMA {quoted(schema)} CASCADE")
        self._connection.execute("CREATE SCHEMA public")

    def _create(self, table: TableShape, shape: Shape) -> str:
        parts = [self._column(column) for column in table.columns]
        if table.key:
            parts.append(f"PRIMARY KEY ({_list(table.key)})")
        if table.unique:
            parts.append(f"UNIQUE ({_list(table.unique)})")
        if self.database == "sqlite":
            mine = [link for link in shape.links if link.child == table.label and link.has_key]
            parts += [_constraint(link, shape) for link in mine]
        end = "" if table.has_rowid or self.database != "sqlite" else " WITHOUT ROWID"
        end += f" PARTITION BY HASH ({quoted(table.key[0])})" if table.is_partitioned else ""
        return f"CREATE TABLE {named(table)} ({', '.join(parts)}){end}"

    def _column(self, column: Column) -> str:
        stored = _TYPES[self.database].get(column.kind, "bigint")
        default = f" DEFAULT {column.default}" if column.default else ""
        return f"{quoted(column.name)} {stored}{default}{'' if column.is_nullable else ' NOT NULL'}"

    def _trigger(self, table: TableShape) -> Iterator[str]:
        if table.trigger is None:
            return
        start = f"CREATE TRIGGER {table.trigger} BEFORE DELETE ON {named(table)}"
        if self.database == "sqlite":
            yield f"{start} WHEN FALSE BEGIN SELECT RAISE(IGNORE); END"
        else:
            yield _WATCH
            yield f"{start} FOR EACH ROW EXECUTE FUNCTION public.watch()"

    def refill(self, shape: Shape, rows: Mapping[str, Iterable[Row]]) -> None:
        """Empty every table and what the lifecycle remembers, and insert rows; no key is asked."""
        self._begin_unasked()
        for table in shape.tables:
            self._connection.execute(f"DELETE FROM {named(table)}")  # noqa: S608  # names of ours
        if not self._state:
            self._state = [name for (name,) in self._connection.execute(_STATE[self.database]).fetchall()]
        for name in self._state:
            self._connection.execute(f"DELETE FROM {quoted(name)}")  # noqa: S608  # names of theirs
        self._insert(shape, rows)
        self._connection.execute("COMMIT")

    def add(self, shape: Shape, rows: Mapping[str, Iterable[Row]]) -> None:
        """Insert more rows; no key is asked."""
        self._begin_unasked()
        self._insert(shape, rows)
        self._connection.execute("COMMIT")

    def _begin_unasked(self) -> None:
        if self.database == "sqlite":
            self._connection.execute("PRAGMA foreign_keys = OFF")
            self._connection.execute("BEGIN")
        else:
            self._connection.execute("BEGIN")
            self._connection.execute("SET LOCAL session_replication_role = replica")

    def _insert(self, shape: Shape, rows: Mapping[str, Iterable[Row]]) -> None:
        mark = "?" if self.database == "sqlite" else "%s"
        for label, found in rows.items():
            table, listed = shape.table(label), list(found)
            if not listed:
                continue
            names = [column.name for column in table.columns]
            one = f"({', '.join([mark] * len(names))})"
            self._connection.execute(
                f"INSERT INTO {named(table)} ({_list(names)}) VALUES {', '.join([one] * len(listed))}",  # noqa: S608
                [row[name] for row in listed for name in names],
            )

    def read(self, shape: Shape) -> World:
        """All rows of all tables."""
        world = World(shape)
        for table in shape.tables:
            columns = ", ".join(self._read_column(column) for column in table.columns)
            found = self._connection.execute(f"SELECT {columns} FROM {named(table)}").fetchall()  # noqa: S608
            names = [column.name for column in table.columns]
            rows = [dict(zip(names, row, strict=True)) for row in found]
            world.rows[table.label] = {row[MARK]: row for row in rows}
        return world

    def _read_column(self, column: Column) -> str:
        is_cast = self.database == "postgresql" and column.kind in _CAST
        return f"{quoted(column.name)}::text" if is_cast else quoted(column.name)

    def run(self, *statements: str) -> None:
        """Run statements, as a sweep that is wrong would; keys act as they are declared."""
        if self.database == "sqlite":
            self._connection.execute("PRAGMA foreign_keys = ON")
        for statement in statements:
            self._connection.execute(statement)


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def named(table: TableShape) -> str:
    """A table as SQL names it."""
    return quoted(table.name) if table.schema is None else f"{quoted(table.schema)}.{quoted(table.name)}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def _limited(shape: Shape, limit: Limit) -> Iterator[str]:
    """A role that may do everything but one thing."""
    yield _MAKE_ROLE
    for schema in sorted({"public", *(table.schema for table in shape.tables if table.schema)}):
        yield f"GRANT ALL ON SCHEMA {quoted(schema)} TO {_ROLE}"
        yield f"GRANT ALL ON ALL TABLES IN SCHEMA {quoted(schema)} TO {_ROLE}"
    table = shape.table(limit.table)
    match limit.what:
        case "usage":
            yield f"REVOKE ALL ON SCHEMA {quoted(table.schema or '')} FROM {_ROLE}"
        case "rows":
            yield f"ALTER TABLE {named(table)} ENABLE ROW LEVEL SECURITY"
            yield f"CREATE POLICY half ON {named(table)} USING (mark % 2 = 0)"
        case privilege:
            yield f"REVOKE {privilege.upper()} ON {named(table)} FROM {_ROLE}"


def _constraint(link: Link, shape: Shape) -> str:
    columns = f" ({_list(link.set_columns)})" if link.set_columns else ""
    deferred = " DEFERRABLE INITIALLY DEFERRED" if link.is_deferred else ""
    return (
        f"FOREIGN KEY ({_list(link.columns)}) REFERENCES {named(shape.table(link.parent))}"
        f" ({_list(link.parent_columns)}) ON DELETE {link.action}{columns}{deferred}"
    )
