"""The contestants: what each layout creates, how it claims, how it finishes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from benchmarks.statements import load_statements

DAYS = 40
KEEP_DAYS = 7
TODAY = datetime.now(tz=UTC).date()

SQL = load_statements(__file__)
QUEUE = SQL["queue"]
COLUMNS = SQL["columns"]
LOG = SQL["log"]
CLAIM = SQL["claim"]
TAKE_UPDATE = SQL["take_update"]
TAKE_DELETE = SQL["take_delete"]

PROBE = "m.id BETWEEN d.id AND d.id"
FINISH_IN_PLACE = SQL["finish_in_place"]
FINISH_BY_MOVE = SQL["finish_by_move"]
HISTORY_INDEXES = SQL["history_indexes"]
ACTIVE_INDEX = (
    "CREATE INDEX {table}_active ON {table} (worker_id) WHERE train_state IN ('pending', 'in_progress');"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to keep runs: its DDL and its two hot statements."""

    name: str
    ddl: str
    claim: str
    finish: str
    daily: str | None
    active: str
    log: str
    settings: tuple[str, ...] = ("SET enable_seqscan = off",)


def partition_name(parent: str, day: date) -> str:
    """The daily partition's table name."""
    return f"{parent}_{day:%Y%m%d}"


def dead_day() -> date:
    """The day on which runs that end today are dropped."""
    return TODAY + timedelta(days=KEEP_DAYS + 1)


def partition_days() -> list[date]:
    """The days that have a partition."""
    return [TODAY + timedelta(days=offset) for offset in range(DAYS)]


def plain(*, json: str = "json", take: str = TAKE_UPDATE, name: str = "A plain") -> Layout:
    """One table; finishing updates in place."""
    columns = COLUMNS.format(key="keep_until timestamptz,", json=json)
    ddl = (
        f"CREATE TABLE metadata ({columns}, PRIMARY KEY (id));"
        + HISTORY_INDEXES.format(table="metadata")
        + ACTIVE_INDEX.format(table="metadata")
        + "CREATE INDEX ON metadata (keep_until, id);"
    )
    return Layout(
        name=name,
        ddl=QUEUE.format(json=json) + ddl + LOG.format(name="history", partitioned=""),
        claim=CLAIM.format(take=take, target="metadata", key="", value=""),
        finish=FINISH_IN_PLACE.format(
            target="metadata", json=json, probe=PROBE, keep=", keep_until = %(keep_until)s", prune=""
        ),
        daily=None,
        active="metadata",
        log="log_history",
    )


def by_keep_until(*, leaf: bool = False, json: str = "json", name: str = "B by keep_until") -> Layout:
    """Daily partitions by the date of death, resolved at the claim; finishing updates in place."""
    days = partition_days()
    ddl = (
        f"CREATE TABLE metadata ({COLUMNS.format(key='keep_until timestamptz NOT NULL,', json=json)})"
        " PARTITION BY RANGE (keep_until); CREATE INDEX ON metadata (id);"
        + HISTORY_INDEXES.format(table="metadata")
        + ACTIVE_INDEX.format(table="metadata")
        + "".join(
            f"CREATE TABLE {partition_name('metadata', day)} PARTITION OF metadata"
            f" FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}');"
            for day in days
        )
    )
    target = partition_name("metadata", dead_day()) if leaf else "metadata"
    return Layout(
        name=name,
        ddl=QUEUE.format(json=json)
        + ddl
        + LOG.format(name="history", partitioned=" PARTITION BY RANGE (bucket)")
        + log_partitions(),
        claim=CLAIM.format(
            take=TAKE_UPDATE, target=target, key="keep_until,", value="%(keep_until)s::timestamptz,"
        ),
        # Through a partitioned parent only an equality reaches the index of the partition.
        finish=FINISH_IN_PLACE.format(
            target=target, json=json, probe="m.id = d.id", keep="", prune="AND m.keep_until = %(keep_until)s"
        ),
        daily="metadata",
        active="metadata",
        log="log_history",
        # A generic plan would carry all partitions: plan by value.
        settings=(
            "SET enable_seqscan = off",
            "SET enable_hashjoin = off",
            "SET enable_mergejoin = off",
            "SET plan_cache_mode = force_custom_plan",
        ),
    )


def live_and_buckets(
    *, leaf: bool = False, json: str = "json", take: str = TAKE_UPDATE, name: str = "C live + buckets"
) -> Layout:
    """Unfinished runs in a standing partition; finishing moves the row to the day on which it dies."""
    key = "bucket date NOT NULL, keep_until timestamptz,"
    ddl = (
        f"CREATE TABLE metadata ({COLUMNS.format(key=key, json=json)}, PRIMARY KEY (id, bucket))"
        " PARTITION BY RANGE (bucket);"
        f"CREATE TABLE metadata_live (LIKE metadata INCLUDING DEFAULTS INCLUDING INDEXES);"
        "ALTER TABLE metadata ATTACH PARTITION metadata_live FOR VALUES FROM ('infinity') TO (MAXVALUE);"
        "CREATE INDEX ON metadata_live (worker_id);"
        "CREATE TABLE metadata_rowwise PARTITION OF metadata FOR VALUES FROM (MINVALUE) TO ('0001-01-01');"
        + HISTORY_INDEXES.format(table="metadata_rowwise")
        + "CREATE INDEX ON metadata_rowwise (keep_until, id);"
        + "".join(
            f"CREATE TABLE {partition_name('metadata', day)} PARTITION OF metadata"
            f" FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}');"
            + HISTORY_INDEXES.format(table=partition_name("metadata", day))
            for day in partition_days()
        )
    )
    target = partition_name("metadata", dead_day()) if leaf else "metadata"
    return Layout(
        name=name,
        ddl=QUEUE.format(json=json)
        + ddl
        + LOG.format(name="history", partitioned=" PARTITION BY RANGE (bucket)")
        + log_partitions(),
        claim=CLAIM.format(
            take=take,
            target="metadata_live" if leaf else "metadata",
            key="bucket,",
            value="'infinity'::date,",
        ),
        finish=FINISH_BY_MOVE.format(target=target, json=json),
        daily="metadata",
        active="metadata_live",
        log="log_history",
    )


def log_partitions() -> str:
    """Daily partitions of the log."""
    return "".join(
        f"CREATE TABLE {partition_name('log_history', day)} PARTITION OF log_history"
        f" FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}');"
        for day in partition_days()
    )


def main_contestants() -> list[Layout]:
    """The three layouts and the variants that matter, each in a database of its own."""
    return [
        plain(),
        by_keep_until(),
        live_and_buckets(),
        live_and_buckets(leaf=True, name="C into the leaf"),
        by_keep_until(leaf=True, name="B into the leaf"),
        plain(json="jsonb", name="A plain, jsonb"),
        plain(take=TAKE_DELETE, name="A plain, queue row deleted at the claim"),
        live_and_buckets(take=TAKE_DELETE, leaf=True, name="C into the leaf, queue row deleted at the claim"),
    ]
