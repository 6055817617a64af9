"""All rows that the invariants speak of, read past Gandy after every step."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import psycopg
from psycopg.rows import dict_row

from tests.support.world import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Row: TypeAlias = "dict[str, Any]"

LIVE = ("pending", "in_progress")
_INSTANT_LENGTH = 27

_QUERIES: Mapping[str, str] = {
    "groups": "SELECT id, name, max_active_jobs, is_enabled FROM manifest_group WHERE owner = '{owner}'",
    "manifests": "SELECT * FROM manifest WHERE owner = '{owner}'",
    "entries": "SELECT id, manifest_id, manifest_group_id, status, gate, reason, origin, due_at, due_until, "
    "occurrences, attempt, scheduled_at, retry_of, unique_key, dead_letter_id, is_retried, error, "
    "CAST(input AS text) AS input "
    "FROM work_queue WHERE owner = '{owner}' UNION ALL "
    # an ended run stands for its entry, too
    "SELECT id, manifest_id, manifest_group_id, 'dispatched', 'open', NULL, origin, due_at, NULL, 1, "
    "attempt, coalesce(scheduled_at, due_at), retry_of, NULL, dead_letter_id, is_retried, NULL, "
    "CAST(input AS text) FROM history WHERE owner = '{owner}' AND origin IS NOT NULL",
    # what has no origin is a cycle of Gandy's own
    "runs": "SELECT id, train_state, manifest_id, manifest_group_id, due_at, attempt, created_at, "
    "start_time, end_time, keep_until, deadline_at, failure_exception, cancellation_reason, worker_id, fence "
    "FROM metadata WHERE owner = '{owner}' AND origin IS NOT NULL",
    "edges": "SELECT e.child_id || ':' || e.parent_id AS id, e.child_id, e.parent_id, e.kind, e.seen, "
    "e.is_output_passed FROM manifest_edge e JOIN manifest m ON m.id = e.child_id WHERE m.owner = '{owner}'",
    # what a dependent has seen of a parent, whether that is its parent now or was before
    "sights": "SELECT s.child_id || ':' || s.parent_id AS id, s.* FROM manifest m JOIN ("
    "SELECT child_id, parent_id, success_seen, failure_seen, end_seen, NULL AS dropped_at "
    "FROM manifest_edge WHERE kind <> 'activation' UNION ALL "
    "SELECT child_id, parent_id, success_seen, failure_seen, end_seen, dropped_at "
    "FROM manifest_former_edge) s ON s.child_id = m.id WHERE m.owner = '{owner}'",
    "outputs": "SELECT o.manifest_id AS id, o.success_count, CAST(o.output AS text) AS output "
    "FROM manifest_output o JOIN manifest m ON m.id = o.manifest_id WHERE m.owner = '{owner}'",
    "letters": "SELECT id, manifest_id, metadata_id, status FROM dead_letter WHERE owner = '{owner}'",
    "keys": "SELECT holder_id AS id, key, held_until, expires_at FROM unique_key WHERE owner = '{owner}'",
    "workers": "SELECT id, state, lease_expires_at FROM worker WHERE owner = '{owner}'",
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tables at one instant, by id."""

    now: datetime
    groups: dict[int, Row] = field(default_factory=dict)
    manifests: dict[int, Row] = field(default_factory=dict)
    entries: dict[int, Row] = field(default_factory=dict)
    runs: dict[int, Row] = field(default_factory=dict)
    edges: dict[str, Row] = field(default_factory=dict)
    sights: dict[str, Row] = field(default_factory=dict)
    outputs: dict[int, Row] = field(default_factory=dict)
    letters: dict[int, Row] = field(default_factory=dict)
    keys: dict[int, Row] = field(default_factory=dict)
    workers: dict[str, Row] = field(default_factory=dict)

    @property
    def live(self) -> dict[int, Row]:
        """Runs that have not ended."""
        return {run_id: run for run_id, run in self.runs.items() if run["train_state"] in LIVE}

    @property
    def queued(self) -> dict[int, Row]:
        """Entries that wait."""
        return {entry_id: entry for entry_id, entry in self.entries.items() if entry["status"] == "queued"}

    @property
    def waiting(self) -> dict[int, Row]:
        """Entries whose turn has not come."""
        return {entry_id: entry for entry_id, entry in self.entries.items() if entry["status"] == "waiting"}

    def waiting_of(self, manifest_id: int) -> list[Row]:
        """The entries of a manifest that wait: never more than one."""
        return [entry for entry in self.queued.values() if entry["manifest_id"] == manifest_id]

    def ended(self, edge: Row) -> int:
        """How often the parent of an edge has ended in the way that it follows."""
        parent = self.manifests[edge["parent_id"]]
        if edge["is_output_passed"]:
            kept = self.outputs.get(edge["parent_id"])
            return 0 if kept is None else int(kept["success_count"])
        names = {"success": "success_count", "failure": "final_failure_count", "end": "end_count"}
        return int(parent[names[edge["kind"]]]) if edge["kind"] in names else 0

    def edges_of(self, manifest_id: int) -> list[Row]:
        """What a manifest follows."""
        return [edge for edge in self.edges.values() if edge["child_id"] == manifest_id]

    def is_awaited(self, manifest_id: int) -> bool:
        """Whether a person has to look at a manifest."""
        return any(
            letter["manifest_id"] == manifest_id and letter["status"] == "awaiting_intervention"
            for letter in self.letters.values()
        )


class Reader(Protocol):
    """A connection beside Gandy's own."""

    def rows(self, query: str) -> Iterable[Row]:
        """Run one query."""
        ...

    def clear(self, tables: Iterable[str]) -> None:
        """Delete all rows."""
        ...

    def close(self) -> None:
        """Give the connection up."""
        ...


class SqliteReader:
    """Reads a file."""

    def __init__(self, path: str) -> None:
        self._link = sqlite3.connect(path, timeout=30, isolation_level=None)

    def rows(self, query: str) -> Iterable[Row]:
        cursor = self._link.execute(query)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, map(_instant, row), strict=True)) for row in cursor.fetchall()]

    def clear(self, tables: Iterable[str]) -> None:
        for table in tables:
            self._link.execute(f"DELETE FROM {table}")  # noqa: S608 names of tables

    def close(self) -> None:
        self._link.close()


class PostgresReader:
    """Reads a database of a server."""

    def __init__(self, url: str) -> None:
        options = "-c search_path=gandy -c timezone=UTC"
        self._link = psycopg.connect(url, options=options, autocommit=True, row_factory=dict_row)

    def rows(self, query: str) -> Iterable[Row]:
        return self._link.execute(query.encode()).fetchall()

    def clear(self, tables: Iterable[str]) -> None:
        with self._link.transaction():
            for table in tables:
                self._link.execute(f"DELETE FROM {table}".encode())  # noqa: S608 names of tables

    def close(self) -> None:
        self._link.close()


def open_reader(url: str) -> Reader:
    """Connect to whichever database it is."""
    if url.startswith("sqlite"):
        return SqliteReader(url.removeprefix("sqlite:///"))
    return PostgresReader(url)


def take_snapshot(reader: Reader, now: datetime) -> Snapshot:
    """Read everything."""
    tables = {
        name: {row["id"]: row for row in reader.rows(query.format(owner=OWNER))}
        for name, query in _QUERIES.items()
    }
    return Snapshot(now, **tables)


def _instant(value: object) -> object:
    if isinstance(value, str) and len(value) == _INSTANT_LENGTH and value.endswith("Z"):
        return datetime.fromisoformat(value)
    return value
