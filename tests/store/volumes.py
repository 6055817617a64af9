"""A PostgreSQL database with much in it, and plans of Gandy's statements on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import psycopg

from gandy.store.drivers.opening import migrate
from gandy.store.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

PlanKind: TypeAlias = Literal["force_generic_plan", "force_custom_plan"]

PARAMETER = re.compile(r"%\((?P<name>\w+)\)s")
TABLES = (
    "work_queue",
    "history_rowwise",
    "manifest",
    "manifest_group",
    "unique_key",
    "log_live",
)
LIVE = 3_000  # runs

FILL = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a statement did, as PostgreSQL tells it."""

    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            waiting += node.get("Plans", [])
            yield node

    @property
    def whole_tables_read(self) -> set[str]:
        return {node["Relation Name"] for node in self.nodes() if node["Node Type"] == "Seq Scan"}

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes() if "Index Name" in node}

    @property
    def rows_examined(self) -> int:
        """Rows that scans of tables touched, taken or not."""
        counted = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
        return sum(
            round(node["Actual Loops"] * sum(node.get(name, 0) for name in counted))
            for node in self.nodes()
            if "Scan" in node["Node Type"] and "Relation Name" in node
        )

    @property
    def pairs_compared(self) -> int:
        return sum(
            round(node["Actual Loops"] * node.get("Rows Removed by Join Filter", 0)) for node in self.nodes()
        )

    @property
    def pages(self) -> int:
        read: int = self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"]
        return read


def fill(url: str, *, are_statistics_true: bool) -> None:
    """Fill a fresh database; statistics are taken now, or were while the tables were empty."""
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE gandy.{table} SET (autovacuum_enabled = off)".encode())
        if not are_statistics_true:
            connection.execute(b"ANALYZE")
        connection.execute(FILL.encode())
        if are_statistics_true:
            connection.execute(b"ANALYZE")


def explain(
    connection: psycopg.Connection[Any],
    name: str,
    kind: PlanKind,
    first: str | None = None,
    /,
    **values: object,
) -> Plan:
    """Run a statement in a session like Gandy's, after the `first`, look at its plan, and undo it."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found["name"] not in names:
            names.append(found["name"])
        return f"${names.index(found['name']) + 1}"

    text = PARAMETER.sub(number, load_statements("postgres")[name])
    given = psycopg.ClientCursor(connection).mogrify(
        ", ".join(["%s"] * len(names)), [values[each] for each in names]
    )
    with connection.transaction(force_rollback=True):
        connection.execute(
            load_statements("postgres")["configure_session"].encode(),
            {"backend": connection.info.backend_pid},
        )
        if first is not None:
            connection.execute(load_statements("postgres")[first].encode())
        connection.execute(f"SET LOCAL plan_cache_mode = {kind}".encode())
        connection.execute(f"PREPARE looked_at AS {text}".encode())
        command = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE looked_at" + (
            f"({given})" if names else ""
        )
        row = connection.execute(command.encode()).fetchone()
        connection.execute(b"DEALLOCATE looked_at")
    assert row is not None
    return Plan(row[0][0]["Plan"])
