"""The hot statements on a database with much in it: by index, and no dearer than what they take.

Both with statistics that are true and with statistics taken while the tables were empty, and both for plans
made for the values at hand and for the generic ones that a prepared statement ends up with.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.store.volumes import LIVE, explain, fill
from tests.support import postgres_found
from tests.support.world import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.store.volumes import PlanKind
    from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("plans")]  # filling a database takes seconds

Link = psycopg.Connection[Any]

TAKEN = 100
GROUPS = 5
# A row that is written touches each index of its table and the table itself, each by a short descent.
PAGES_A_ROW = 40
UNUSED = [
    "output",
    "junctions",
    "failure_junction",
    "failure_exception",
    "failure_reason",
    "stack_trace",
    "cancellation_reason",
    "progress_done",
    "progress_total",
]
SERVERS = ["postgres_server", *([] if postgres_found.older() is None else ["old_postgres_server"])]


@pytest.fixture(params=SERVERS, scope="session")
def server(request: pytest.FixtureRequest) -> PostgresServer:
    server: PostgresServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture(params=[True, False], ids=["true-statistics", "empty-statistics"])
def connection(request: pytest.FixtureRequest, server: PostgresServer) -> Iterator[Link]:
    """A full database; what a test does to it is undone."""
    is_true = bool(request.param)
    name = server.template(f"full_{is_true}", lambda url: fill(url, are_statistics_true=is_true))
    with psycopg.connect(server.url(server._templates[name]), autocommit=True) as connection:
        yield connection


@pytest.fixture(params=["force_generic_plan", "force_custom_plan"], ids=["generic", "custom"])
def kind(request: pytest.FixtureRequest) -> PlanKind:
    kind: PlanKind = request.param
    return kind


def test_the_groups_with_ready_work_are_found_by_one_probe_each(connection: Link, kind: PlanKind) -> None:
    plan = explain(connection, "ready_groups", kind, owner="shop", worker_id="worker-1")

    assert "ix_work_queue_ready_train" in plan.indexes
    assert plan.whole_tables_read == set()
    assert plan.rows_examined <= 2 * 6
    assert plan.pages <= 100


def test_only_the_top_of_each_group_is_read(connection: Link, kind: PlanKind) -> None:
    asked = {"owner": "shop", "group_id": [1, 2, 3, 4, 5], "share": [20] * 5, "trains": ["Sell"]}

    ready = explain(connection, "load_ready", kind, **asked, min_age_seconds=0.0)
    triggered = explain(connection, "load_triggered", kind, **asked, min_age_seconds=0.0)

    assert (ready.indexes, triggered.indexes) == ({"ix_work_queue_ready"}, {"ix_work_queue_triggered"})
    assert ready.rows_examined == TAKEN
    assert triggered.rows_examined == 0
    assert ready.pages <= 5 * TAKEN


def test_a_dispatch_touches_only_its_entries(connection: Link, kind: PlanKind) -> None:
    ids = _ids(connection, "work_queue", "status = 'queued' AND gate = 'open'")

    flags = dict.fromkeys(("has_manifests", "has_letters", "has_keys"), True)

    plan = explain(
        connection,
        "dispatch_entries",
        kind,
        ids=ids,
        worker_id="worker-1",
        default_timeout_seconds=1200.0,
        **flags,
    )

    assert "work_queue_pkey" in plan.indexes
    assert plan.whole_tables_read == set()
    assert plan.rows_examined <= 3 * TAKEN
    assert plan.pairs_compared == 0
    assert plan.pages <= PAGES_A_ROW * TAKEN


def test_the_end_of_runs_touches_only_these_runs(connection: Link, kind: PlanKind) -> None:
    ids = _ids(connection, "work_queue", "train_state = 'in_progress'")
    nothing = dict.fromkeys(UNUSED, [None] * TAKEN)
    each: dict[str, object] = {
        "worker_id": ["worker-1"] * TAKEN,
        "fence": [1] * TAKEN,
        "train_state": ["completed"] * TAKEN,
        "keep_for_seconds": [None] * (TAKEN - 1) + [86_400.0],
    }

    plan = explain(connection, "end_runs", kind, id=ids, **nothing, **each, usual_seconds=604_800.0)

    assert "work_queue_pkey" in plan.indexes
    assert plan.whole_tables_read <= {"history_piece"}, "it has a row for a day that is very large"
    assert plan.rows_examined <= TAKEN + 1 + GROUPS, "each group is looked at once: has it a cap?"
    assert plan.pairs_compared == 0
    assert plan.pages <= PAGES_A_ROW * TAKEN


def test_entries_that_come_due_are_found_among_many_future_ones(connection: Link, kind: PlanKind) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("SELECT set_config('gandy.now', (now() + interval '100 seconds')::text, true)")
        plan = explain(connection, "open_due", kind, owner=OWNER, limit=TAKEN)

    assert plan.indexes == {"ix_work_queue_future", "work_queue_pkey"}
    assert plan.rows_examined <= 2 * TAKEN
    assert plan.pages <= PAGES_A_ROW * TAKEN


def test_nothing_due_costs_a_probe(connection: Link, kind: PlanKind) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("SELECT set_config('gandy.now', '2020-01-01 00:00+00', true)")
        due = explain(connection, "open_due", kind, owner=OWNER, limit=TAKEN)
        upcoming = explain(connection, "next_due", kind, owner=OWNER)
        late = explain(connection, "cancel_timed_out", kind, limit=TAKEN)

    assert due.rows_examined == 0
    assert late.rows_examined <= LIVE  # one index serves all live runs, so that a claim writes one
    assert late.indexes >= {"ix_work_queue_live_run"}
    assert upcoming.rows_examined == 1
    assert max(due.pages, upcoming.pages) <= 20
    assert late.pages <= LIVE


def test_pending_runs_are_claimed_from_the_top(connection: Link, kind: PlanKind) -> None:
    plan = explain(
        connection,
        "claim_pending",
        kind,
        owner="shop",
        trains=["Sell"],
        limit=TAKEN,
        worker_id="worker-1",
        default_timeout_seconds=1200.0,
    )

    assert "ix_work_queue_live_pending" in plan.indexes
    assert plan.whole_tables_read == set()
    assert plan.rows_examined <= 4 * TAKEN
    assert plan.pairs_compared == 0
    assert plan.pages <= PAGES_A_ROW * TAKEN


def test_what_goes_back_is_reached_by_its_id(connection: Link, kind: PlanKind) -> None:
    ids = _ids(connection, "work_queue", "train_state = 'in_progress'")

    plan = explain(connection, "put_back_entries", kind, ids=ids, worker_id="worker-1")

    assert plan.whole_tables_read == set()
    assert plan.rows_examined <= 4 * TAKEN
    assert plan.pages <= PAGES_A_ROW * TAKEN


def test_retries_are_written_from_the_runs_they_follow(connection: Link, kind: PlanKind) -> None:
    query = "SELECT id, bucket || '/' || piece FROM gandy.history ORDER BY id LIMIT %s"
    found = connection.execute(query, [TAKEN]).fetchall()
    ids, buckets = ([row[column] for row in found] for column in (0, 1))
    numbers = {name: [0] * TAKEN for name in ("failures", "losses", "lone_losses")}

    plan = explain(
        connection,
        "queue_retries",
        kind,
        id=ids,
        bucket=buckets,
        delay_seconds=[1.0] * TAKEN,
        unique_key=[None] * TAKEN,
        is_open=[True] * TAKEN,
        **numbers,
    )

    leaves = {name for name in plan.indexes if re.fullmatch(r"history_(rowwise|[0-9]{8})_pkey", name)}
    assert plan.indexes == {*leaves, "manifest_owner_of_id"}
    assert plan.rows_examined == TAKEN
    assert plan.pairs_compared == 0


def test_reports_and_log_lines_reach_their_runs_by_id(connection: Link, kind: PlanKind) -> None:
    ids = _ids(connection, "work_queue", "train_state = 'in_progress'")
    fences = [1] * TAKEN
    lines = {
        "run_id": ids,
        "fence": fences,
        "created_at": ["2026-01-05T12:00:00Z"] * TAKEN,
        "level": ["info"] * TAKEN,
        "logger": ["shop"] * TAKEN,
        "message": ["sold"] * TAKEN,
    }
    progress = {
        "run_id": ids,
        "fence": fences,
        "done": [1] * TAKEN,
        "total": [2] * TAKEN,
        "junction": ["sell"] * TAKEN,
        "ignores_cancellation": [False] * TAKEN,
    }

    plans = [
        explain(connection, "write_live_logs", kind, **lines),
        explain(connection, "report_progress", kind, **progress),
        explain(connection, "read_cancellations", kind, ids=ids),
    ]

    assert [plan.indexes for plan in plans] == [{"work_queue_pkey"}] * 3
    assert [plan.rows_examined for plan in plans] == [TAKEN] * 3
    assert [plan.pairs_compared for plan in plans] == [0] * 3


def test_the_end_of_manifests_runs_looks_at_these_manifests_only(connection: Link, kind: PlanKind) -> None:
    ids = _ids(connection, "manifest", "true")
    recorded = {
        "manifest_id": ids,
        "run_id": ids,
        "state": ["completed"] * TAKEN,
        "ended": ["success"] * TAKEN,
        "is_counted": [False] * TAKEN,
        "needs_look": [False] * TAKEN,
    }

    plans = [
        explain(connection, "lock_manifests", kind, ids=ids),
        explain(
            connection, "read_failing", kind, manifest_id=ids, run_id=ids, bucket=["-infinity/0"] * TAKEN
        ),
        explain(connection, "record_manifest_ends", kind, **recorded),
        explain(connection, "keep_outputs", kind, manifest_id=ids, output=["1"] * TAKEN),
        explain(connection, "count_final_failures", kind, ids=ids),
        explain(connection, "count_cancelled", kind, manifest_id=ids, count=[1] * TAKEN),
        explain(connection, "release_entries", kind, manifest_ids=ids),
    ]

    assert all(plan.whole_tables_read == set() for plan in plans)
    assert max(plan.rows_examined for plan in plans) <= 2 * TAKEN


def test_trains_that_nobody_knows_are_looked_for_at_the_top_of_each_group(
    connection: Link, kind: PlanKind
) -> None:
    plan = explain(connection, "hold_unknown_trains", kind, owner="shop", trains=["Sell"], limit=TAKEN)

    assert plan.whole_tables_read == set()
    assert plan.rows_examined <= 5 * TAKEN + 2 * 6


def test_counting_what_is_active_is_bounded_by_what_runs(connection: Link, kind: PlanKind) -> None:
    by_group = explain(connection, "count_active_by_group", kind, owner="shop", ids=[1, 2])
    in_all = explain(connection, "count_active", kind, owner="shop")

    assert by_group.indexes == in_all.indexes == {"ix_work_queue_live_run"}
    assert max(by_group.rows_examined, in_all.rows_examined) <= LIVE


def test_a_claim_in_one_statement_reads_what_it_takes(connection: Link, kind: PlanKind) -> None:
    values = {"owner": "shop", "trains": ["Sell"], "worker_id": "w", "default_timeout_seconds": 60.0}
    with connection.transaction(force_rollback=True):
        connection.execute("UPDATE gandy.worker SET state = 'running'")
        bounds = {"turn": 1, "locked": [], "most_seen": 32, "most_locked": 256}
        refused = explain(connection, "claim_plain", kind, limit=TAKEN, **bounds, **values)

    assert refused.whole_tables_read <= {"worker", "manifest_group"}
    assert refused.rows_examined <= TAKEN


def _ids(connection: Link, table: str, condition: str) -> list[int]:
    query = f"SELECT id FROM gandy.{table} WHERE {condition} ORDER BY id LIMIT {TAKEN}"  # noqa: S608
    ids = [row[0] for row in connection.execute(query.encode())]
    assert len(ids) == TAKEN
    return ids
