"""The hot statements on SQLite search an index; none walks a table that grows."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gandy.store.drivers.opening import migrate
from gandy.store.drivers.sqlite_steps import statement_parts
from gandy.store.drivers.sqlite_values import StatementClock
from tests.support.statements import make_scratch_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.databases import SqliteHome

HOT = [
    "ready_groups",
    "load_ready",
    "load_triggered",
    "dispatch_entries",
    "open_due",
    "next_due",
    "claim_pending",
    "put_back_entries",
    "end_runs",
    "queue_retries",
    "release_entries",
    "read_failing",
    "record_manifest_ends",
    "keep_outputs",
    "count_final_failures",
    "count_cancelled",
    "wake_dependents",
    "advance_manifests",
    "find_orphaned_parents",
    "release_keys",
    "pass_keys",
    "count_active_by_group",
    "write_live_logs",
    "load_logs",
    "report_progress",
    "read_cancellations",
    "cancel_timed_out",
    "count_awaiting_letters",
    "load_run",
    "find_live_job",
    "next_look",
    "next_lease_end",
    "find_abandoned",
    "find_overaged",
    "find_stale_pending",
    "find_live_run",
    "find_ended_job",
    "find_unheld_runs",
    "find_unheard_run",
    "lock_manifest",
    "find_declared",
    "lock_declared",
    "load_ancestors",
    "insert_manifests",
    "update_manifests",
    "find_children",
    "load_children",
    "find_equal_waiting",
    "keep_activations",
    "promote_waiting",
    "find_queued_beside",
    "step_back_entries",
    "find_waiting_of_groups",
    "page_waiting_manifests",
    "find_stalled_turns",
    "find_stalled_orphans",
    "lock_removable_manifests",
    "close_early_heads",
    "queue_trigger",
    "cancel_stranded",
    "show_manifest",
    "load_view_of",
    "list_dependents",
    "list_verdicts",
    "find_owners_of_manifest",
    "find_most_overdue",
    "find_waiting",
    "find_manifests_of_jobs",
    "lock_entries",
    "lock_live_runs",
    "find_kept_runs",
    "read_letters",
    "resolve_letters",
    "queue_rerun",
    "start_run",
    "load_waiting",
    "count_active_of_groups",
    "count_ahead",
    "count_held_in_groups",
    "load_entry",
    "list_attempts",
    "list_letters_of_runs",
    "find_switchers",
    "load_upcoming",
]
GROWING = re.compile(
    r"^SCAN (?:work_queue|history|metadata|manifest|log|unique_key|dead_letter|[qrmwkd])\b(?! USING)"
)


@pytest.fixture
def connection(sqlite_home: SqliteHome) -> Iterator[sqlite3.Connection]:
    with sqlite_home.database() as url:
        migrate(url)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            StatementClock(lambda: datetime.now(UTC)).register(connection)
            yield connection


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_searches_an_index(connection: sqlite3.Connection, name: str) -> None:
    parts = statement_parts(name)
    make_scratch_tables(connection, parts)

    steps = [
        row[3] for part in parts for row in connection.execute(f"EXPLAIN QUERY PLAN {part}", _values(part))
    ]

    assert steps
    assert [step for step in steps if GROWING.search(step)] == []


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("search_deeds_of_owner", "ix_audit_owner (owner"),
        ("search_deeds_by", "ix_audit_actor ((owner,actor)"),
        ("search_deeds_on", "PRIMARY KEY (owner=? AND subject=? AND audit_id<?)"),
        ("gather_deeds", "ix_audit_at (at>?)"),
        ("load_upcoming", "ix_manifest_next_run (owner=? AND next_scheduled_run"),
        ("open_due", "ix_work_queue_future (owner=? AND scheduled_at<?)"),
        ("next_due", "ix_work_queue_future (owner=?)"),
        ("count_waiting", "ix_work_queue_future (owner=?)"),
        ("count_waiting", "ix_work_queue_held (owner=?)"),
        ("count_waiting", "ix_work_queue_waiting_owner (owner=?)"),
        ("find_old_entries", "ix_work_queue_held (owner=? AND scheduled_at<?)"),
        ("search_runs_by_start", "ix_history_name (owner=? AND name=? AND start_time>? AND start_time<?)"),
        ("search_unsuccessful_runs", "ix_history_unsuccessful (train_state=? AND id<?)"),
        ("search_unsuccessful_runs", "ix_history_unsuccessful_owner (owner=? AND train_state=? AND id<?)"),
        ("gather_runs", "ix_history_name (owner=? AND name=? AND start_time>? AND start_time<?)"),
        ("gather_runs", "ix_history_name (owner=?)"),
        ("find_expired_runs", "ix_history_name (owner=? AND name=? AND start_time>? AND start_time<?)"),
        ("list_owners_of_runs", "ix_history_name (owner>?)"),
        ("gather_entries", "ix_work_queue_ready (owner=?)"),
        ("gather_entries", "ix_work_queue_future (owner=?)"),
        ("gather_entries", "ix_work_queue_unknown_train (owner=?)"),
        ("gather_entries", "ix_work_queue_held (owner=?)"),
        ("gather_entries", "ix_work_queue_waiting_owner (owner=?)"),
        ("gather_entries", "ix_work_queue_settled_owner (owner=? AND status=?)"),
        ("gather_entries", "ix_work_queue_live_run (train_state=? AND owner=?)"),
        ("search_letters", "ix_dead_letter_owner (owner=? AND id<?)"),
        ("gather_letters", "ix_dead_letter_awaiting (owner=?)"),
        ("search_letters_by_resolution", "ix_dead_letter_resolved_owner (owner=? AND resolved_at<?)"),
        ("search_entries_by_time", "ix_work_queue_future (owner=? AND scheduled_at>?)"),
        ("gather_entries_of_manifest", "ix_work_queue_unique_occurrence (manifest_id=?)"),
        ("search_letters_by_resolution", "ix_dead_letter_resolved (resolved_at<?)"),
        ("find_reruns", "USING INTEGER PRIMARY KEY (rowid=?)"),
        ("list_dependencies", "ix_manifest_depends_on (depends_on_manifest_id>?)"),
        ("search_runs", "SEARCH h USING INTEGER PRIMARY KEY (rowid=?)"),
        ("search_manifests", "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"),
        ("search_manifests_of_train", "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"),
    ],
)
def test_what_an_application_asks_is_walked_by_an_index_of_its_own(
    connection: sqlite3.Connection, name: str, index: str
) -> None:
    (part,) = statement_parts(name)
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {part}", _values(part))]

    assert any(index in step for step in steps), steps


def _values(part: str) -> dict[str, object]:
    names = re.findall(r"(?<![:\w]):([a-z_]\w*)", part)
    return {name: "[]" if name.endswith("s") else 1 for name in names}
