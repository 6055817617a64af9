"""An application's database to sweep, made and looked at without SQLAlchemy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, run_contracts
from gandy.sweep import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gandy.lifecycle.supervisor.report import ContractReport

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_MANY_ROWS = 500
_TYPES = {
    "sqlite": {"instant": "TEXT", "key": "INTEGER PRIMARY KEY", "flag": "INTEGER", "blob": "BLOB"},
    "postgresql": {
        "instant": "timestamptz",
        "key": "bigint PRIMARY KEY",
        "flag": "boolean",
        "blob": "bytea",
    },
}


@dataclass(frozen=True)
class Ground:
    """One database of either kind."""

    url: str

    @property
    def kind(self) -> str:
        return "sqlite" if self.url.startswith("sqlite") else "postgresql"

    def connect(self) -> Any:  # noqa: ANN401  # of either driver
        if self.kind == "postgresql":
            return psycopg.connect(self.url, autocommit=True)
        connection = sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None, timeout=10)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def run(self, *statements: str) -> None:
        """Run statements; `{instant}`, `{key}` and `{flag}` stand for the database's own types."""
        with closing(self.connect()) as connection:
            for statement in statements:
                connection.execute(statement.format_map(_TYPES[self.kind]))

    def fill(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        """Insert whole rows."""
        rows = [tuple(map(self.value, row)) for row in rows]
        if self.kind == "postgresql" and len(rows) >= _MANY_ROWS:
            with (
                closing(self.connect()) as connection,
                connection.cursor() as cursor,
                cursor.copy(f"COPY {table} FROM STDIN") as copy,
            ):
                for row in rows:
                    copy.write_row(row)
            return
        mark = "%s" if self.kind == "postgresql" else "?"
        marks = ", ".join([mark] * len(rows[0]))
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608  # test names
            cursor.execute("COMMIT")

    def value(self, value: object) -> object:
        if isinstance(value, datetime) and self.kind == "sqlite":
            return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
        return value

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as connection:
            return [tuple(row) for row in connection.execute(query).fetchall()]

    def ids(self, table: str, column: str = "id") -> list[Any]:
        return [row[0] for row in self.rows(f"SELECT {column} FROM {table} ORDER BY 1")]  # noqa: S608

    def sweep(
        self, *tables: Table, now: datetime = NOW, by: SweepOptions | None = None, name: str = "app"
    ) -> ContractReport:
        """One unattended tick of a contract of these tables."""
        by = replace(by or SweepOptions(), clock=ManualClock(now))
        [report] = run_contracts([Contract(name, tables)], self.url, options=by)
        return report


def steps_of(rows: int) -> Pace:
    """Batches of one size, however slow the machine is."""
    return Pace(start=rows, largest=rows, target=timedelta(hours=1))


def ago(**span: float) -> datetime:
    """An instant before NOW."""
    return NOW - timedelta(**span)


def ahead(**span: float) -> datetime:
    """An instant after NOW."""
    return NOW + timedelta(**span)


def ms(instant: datetime) -> int:
    """Milliseconds since 1970."""
    return int(instant.timestamp() * 1000)
