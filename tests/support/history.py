"""Rows of the past, written straight into the tables, and the trains that prune them."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from gandy.loops.cycles import Record
from gandy.settings import CleanupSettings, RetentionSettings
from gandy.upkeep.declaration import UpkeepRequest
from gandy.upkeep.pruning import PruningShift, run_upkeep
from gandy.upkeep.trains import DeadLetterCleanupTrain, MetadataCleanupTrain, TableMaintenanceTrain
from tests.support.world import OWNER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gandy.train.base import Train
    from gandy.upkeep.pruning import UpkeepResult
    from tests.support.world import World

LIVE_STATES = {"pending", "in_progress"}
KEEP_CYCLES_FOR = timedelta(minutes=30)


def _never() -> bool:
    return False


@dataclass
class Past:
    """One database, and its past."""

    world: World
    cleanup: CleanupSettings = field(default_factory=CleanupSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    is_stopping: Callable[[], bool] = _never
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1_000_000))
    _live_numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(9_000_000))

    @property
    def has_days(self) -> bool:
        return not self.world.url.startswith("sqlite")

    async def metadata_cleanup(self, **settings: Any) -> UpkeepResult:  # noqa: ANN401 any setting
        self.cleanup = replace(self.cleanup, **settings)
        return await self._run(MetadataCleanupTrain)

    async def dead_letter_cleanup(self, **settings: Any) -> UpkeepResult:  # noqa: ANN401 any setting
        self.retention = replace(self.retention, **settings)
        return await self._run(DeadLetterCleanupTrain)

    async def table_maintenance(self, **settings: Any) -> UpkeepResult:  # noqa: ANN401 any setting
        self.retention = replace(self.retention, **settings)
        return await self._run(TableMaintenanceTrain)

    def request(self) -> UpkeepRequest:
        return UpkeepRequest(owner=OWNER, retention=self.retention, cleanup=self.cleanup)

    async def _run(self, train: type[Train[UpkeepRequest, UpkeepResult]]) -> UpkeepResult:
        shift = PruningShift(self.world.database, self.is_stopping)
        record = Record(owner=OWNER, keep_for=KEEP_CYCLES_FOR)
        return await run_upkeep(shift, train, self.request(), record=record)

    def run(
        self,
        name: str = "ManifestManagerTrain",
        *,
        state: str = "completed",
        started: timedelta = timedelta(hours=1),
        owner: str = OWNER,
        keep_for: timedelta = timedelta(days=365),
        bucket: str | None = None,
        lines: int = 0,
        **columns: object,
    ) -> int:
        """Write a run that started so long ago; one that is not over is in the queue."""
        now = self.world.clock.now
        # SQLite counts on from the largest id of the queue
        number = next(self._live_numbers if state in LIVE_STATES else self._numbers)
        if state in LIVE_STATES:
            instants = ("due_at", "scheduled_at", "created_at", "dispatched_at", "start_time")
            given: dict[str, Any] = {
                **dict.fromkeys(instants, now - started),
                "train_state": state,
                **columns,
            }
            self.entry(entry_id=number, owner=owner, train_name=name, **given)
        else:
            values: dict[str, object] = {
                "id": number,
                "owner": owner,
                "name": name,
                "train_state": state,
                "created_at": now - started,
                "start_time": now - started,
                "end_time": now - started,
                "keep_until": now - started + keep_for,
                **columns,
            }
            self.insert("history", **values, **({"bucket": bucket or "-infinity"} if self.has_days else {}))
        place = "infinity" if state in LIVE_STATES else bucket or "-infinity"
        for _ in range(lines):
            self.line(number, bucket=place)
        return number

    def runs(
        self, count: int, *, name: str, started: timedelta, lines: int = 0, bucket: str | None = None
    ) -> None:
        """Write many finished runs of a train at once; they are kept for a year."""
        now, first = self.world.clock.now, 2_000_000 + self.count("metadata")
        start, end = self.value(now - started), self.value(now + timedelta(days=365))
        ids = range(first, first + count)
        place = (bucket or "-infinity",) if self.has_days else ()
        column = "bucket, " if self.has_days else ""
        self.insert_many(
            "history",
            f"{column}id, owner, name, train_state, created_at, start_time, end_time, keep_until",
            [(*place, number, OWNER, name, "completed", start, start, start, end) for number in ids],
        )
        if lines:
            self.insert_many(
                "log",
                f"{column}metadata_id, created_at, level, logger, message",
                [(*place, number, start, "info", "test", "a line") for number in ids for _ in range(lines)],
            )

    def line(self, run_id: int, *, bucket: str = "-infinity") -> None:
        """Write a log line of a run."""
        self.insert(
            "log",
            metadata_id=run_id,
            created_at=self.world.clock.now,
            level="info",
            logger="test",
            message="a line",
            **({"bucket": bucket} if self.has_days else {}),
        )

    def entry(self, *, entry_id: int | None = None, status: str = "dispatched", **columns: object) -> int:
        """Write a queue entry of a default group."""
        now = self.world.clock.now
        values: dict[str, object] = {
            "id": next(self._live_numbers) if entry_id is None else entry_id,
            "owner": OWNER,
            "train_name": "SendMail",
            "manifest_group_id": 1,
            "status": status,
            "reason": "active" if status == "skipped" else None,
            "origin": "ad_hoc",
            "due_at": now,
            "scheduled_at": now,
            "created_at": now,
            **({"train_state": "pending", "start_time": now} if status == "dispatched" else {}),
            **columns,
        }
        self.insert("work_queue", **values)
        return int(str(values["id"]))

    def letter(self, *, status: str, **columns: object) -> int:
        """Write a dead letter."""
        values: dict[str, object] = {
            "owner": OWNER,
            "manifest_group_id": 1,
            "train_name": "SendMail",
            "metadata_id": 1,
            "status": status,
            "reason": "it failed",
            "dead_lettered_at": self.world.clock.now,
            **columns,
        }
        return int(self.insert("dead_letter", **values))

    def insert(self, table: str, **columns: object) -> Any:  # noqa: ANN401 whatever the first column is
        """Write one row, past Gandy."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        values = [self.value(value) for value in columns.values()]
        first = "key" if table in {"unique_key", "service_state"} else "id"
        (row,) = self.world.rows(
            f"INSERT INTO {table} ({names}) VALUES ({marks}) RETURNING {first} AS id",  # noqa: S608 names of tests
            *values,
        )
        return row["id"]

    def insert_many(self, table: str, columns: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Write many rows, past Gandy."""
        if not self.has_days:
            query = f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(rows[0]))})"  # noqa: S608
            with closing(sqlite3.connect(self.world.url.removeprefix("sqlite:///"))) as link:
                link.executemany(query, rows)
                link.commit()
            return
        with (
            psycopg.connect(self.world.url, options="-c search_path=gandy") as server,
            server.cursor().copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def value(self, value: object) -> object:
        if isinstance(value, datetime) and not self.has_days:
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return value

    def count(self, table: str, where: str = "1 = 1") -> int:
        (row,) = self.world.rows(f"SELECT count(*) AS rows FROM {table} WHERE {where}")  # noqa: S608 names of tests
        return int(row["rows"])

    def ids(self, table: str, where: str = "1 = 1") -> set[Any]:
        rows = self.world.rows(f"SELECT id FROM {table} WHERE {where}")  # noqa: S608 names of tests
        return {row["id"] for row in rows}

    def day(self, ahead: int) -> str | None:
        """Name the bucket of a day, where there are days."""
        return (self.world.clock.now + timedelta(days=ahead)).date().isoformat() if self.has_days else None

    def refuse_deletion(self, table: str, row_id: int) -> None:
        """Let a trigger refuse to delete one row."""
        table = "history" if table == "metadata" else table
        if not self.has_days:
            self.world.rows(
                f"CREATE TRIGGER refuse_{table} BEFORE DELETE ON {table} WHEN OLD.id = {row_id} "
                "BEGIN SELECT RAISE(ABORT, 'this row stays'); END"
            )
            return
        self.world.rows(
            "CREATE FUNCTION gandy.refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'this row stays'; END $$"
        )
        self.world.rows(
            f"CREATE TRIGGER refuse_{table} BEFORE DELETE ON {table} FOR EACH ROW "
            f"WHEN (OLD.id = {row_id}) EXECUTE FUNCTION gandy.refuse()"
        )

    def allow_deletion(self, table: str) -> None:
        """Take the trigger away."""
        table = "history" if table == "metadata" else table
        self.world.rows(f"DROP TRIGGER refuse_{table}" + (f" ON {table}" if self.has_days else ""))

    @contextmanager
    def holding(self, table: str, row_id: int) -> Iterator[None]:
        """Hold a row locked, as somebody at work would (PostgreSQL)."""
        table = "history" if table == "metadata" else table
        with psycopg.connect(self.world.url, options="-c search_path=gandy") as link:
            link.execute(f"SELECT 1 FROM {table} WHERE id = %s FOR UPDATE".encode(), [row_id])  # noqa: S608
            yield
            link.rollback()
