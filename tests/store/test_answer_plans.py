"""What operators ask is answered by index, beside 100,000 entries and deeds of another owner."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.store.volumes import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.store.volumes import PlanKind
    from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.xdist_group("answer-plans")  # filling a database takes seconds

Link = psycopg.Connection[Any]

PAGE = 50
PAGES_A_ROW = 40
FILL = """
INSERT INTO gandy.manifest_group (owner, name, max_active_jobs)
SELECT 'bakery', 'group ' || g, 5 FROM generate_series(1, 20) g;
INSERT INTO gandy.manifest_group (owner, name, is_enabled) VALUES ('shop', 'default', false);
INSERT INTO gandy.manifest
    (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds, next_scheduled_run)
SELECT 'm-' || n, 'bakery', 'Sell', 1 + n % 20, 'interval', 3600, gandy.now() + n * interval '1 second'
FROM generate_series(1, 10000) n;
INSERT INTO gandy.manifest
    (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds, next_scheduled_run)
SELECT 'm-' || n, 'shop', 'Sell', 21, 'interval', 3600, gandy.now() + n * interval '1 minute'
FROM generate_series(1, 100) n;
INSERT INTO gandy.work_queue (owner, train_name, manifest_group_id, origin, due_at, scheduled_at)
SELECT 'bakery', 'Sell', 1 + n % 20, 'ad_hoc', gandy.now(), gandy.now() FROM generate_series(1, 100000) n;
INSERT INTO gandy.work_queue (owner, train_name, manifest_group_id, origin, due_at, scheduled_at)
SELECT 'shop', 'Sell', 21, 'ad_hoc', gandy.now(), gandy.now() FROM generate_series(1, 100) n;
INSERT INTO gandy.audit (owner, actor, face, action, subject)
SELECT 'bakery', 'op-' || n % 50, 'cli', 'trigger manifest', 'm-' || n % 10000
FROM generate_series(1, 100000) n;
INSERT INTO gandy.audit (owner, actor, face, action, subject)
SELECT 'shop', 'ada', 'cli', 'disable manifest', 'm-' || n FROM generate_series(1, 100) n;
INSERT INTO gandy.audit_subject SELECT owner, subject, id FROM gandy.audit ON CONFLICT DO NOTHING;
VACUUM ANALYZE;
"""
GROWING = {"work_queue", "manifest", "audit", "audit_subject", "dead_letter", "history_rowwise"}
IDS = list(range(100_001, 100_001 + PAGE))
NOW = datetime.now(UTC)
#: The parameters of a search in the trail; some statements use only a part.
AFTER_NOW = {"after_at": NOW, "after_id": 0, "until": NOW + timedelta(days=30), "limit": PAGE}
DEEDS: dict[str, object] = {
    "actor": "ada",
    "subject": "m-7",
    "letter": "dead letter m-7",
    "since": NOW - timedelta(days=1),
    "before": 2**62,
    "limit": PAGE,
    "searched": 4 * PAGE,
}
#: The filters of a listing, none of which selects anything; some statements use only a part.
CHOSEN: dict[str, object] = {
    **dict.fromkeys(("train", "manifest", "group", "since", "until", "status", "gate", "state")),
    "with_input": False,
    "before": 2**62,
    "limit": PAGE,
    "searched": 4 * PAGE,
    "last": NOW + timedelta(days=1),
    "beyond": 0,
}


def fill(url: str) -> None:
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for part in FILL.split(";\n"):
            if part.strip():
                connection.execute(part.encode())


@pytest.fixture
def link(postgres_server: PostgresServer) -> Iterator[Link]:
    name = postgres_server.template("answers", fill)
    url = postgres_server.url(postgres_server._templates[name])
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture(params=["force_generic_plan", "force_custom_plan"], ids=["generic", "custom"])
def kind(request: pytest.FixtureRequest) -> PlanKind:
    kind: PlanKind = request.param
    return kind


@pytest.mark.parametrize(
    ("name", "values", "rows"),
    [
        ("load_waiting", {"ids": IDS}, PAGE),
        ("count_active_of_groups", {"ids": [21]}, 1),
        ("count_ahead", {"id": IDS[-1], "group_id": 21, "rank": 0, "limit": 10_000}, PAGE),
        ("count_held_in_groups", {"limit": 1_000, "groups": 1_000}, PAGE),
        ("find_old_entries", {"searched": 1_000, "limit": 20, "patience_seconds": 0.0}, PAGE),
        ("load_entry", {"id": IDS[0]}, 1),
        ("find_time_of_entry", {"id": IDS[0]}, 1),
        ("list_attempts", {"id": IDS[0], "most": 50}, 4),
        ("list_letters_of_runs", {"runs": IDS, "letters": [1], "limit": 50}, PAGE),
        ("find_switchers", {"kind": ["manifest"], "name": ["m-7"]}, 1),
        ("search_deeds_of_owner", DEEDS, 3 * PAGE),
        ("gather_entries_of_manifest", {**CHOSEN, "manifest": "m-7"}, 1),
        ("search_entries_by_time", CHOSEN, PAGE),
        ("search_runs_by_start", {**CHOSEN, "train": "Sell"}, PAGE),
        ("search_letters_by_resolution", {**CHOSEN, "status": "retried"}, PAGE),
        ("find_reruns", {"ids": IDS}, PAGE),
        ("search_deeds_by", DEEDS, 3 * PAGE),
        ("search_deeds_on", DEEDS, 3),
        (
            "load_upcoming",
            {**AFTER_NOW, "is_deferred": False},
            PAGE,
        ),
        ("load_upcoming", {**AFTER_NOW, "is_deferred": True}, PAGE),
    ],
)
def test_an_answer_costs_what_it_says(
    link: Link, kind: PlanKind, name: str, values: dict[str, object], rows: int
) -> None:
    if name.startswith("search_"):
        link.execute("SET enable_sort = off; SET enable_bitmapscan = off")

    plan = explain(link, name, kind, owner="shop", **values)

    assert plan.pages <= (rows + 5) * PAGES_A_ROW
    assert not plan.whole_tables_read & GROWING, plan.whole_tables_read


def test_the_deeds_of_all_owners_are_walked_from_the_newest(link: Link, kind: PlanKind) -> None:
    link.execute("SET enable_sort = off; SET enable_bitmapscan = off")

    plan = explain(link, "search_deeds", kind, owner=None, **{**DEEDS, "actor": None, "subject": None})

    assert plan.rows_examined <= 5 * PAGE
    assert not plan.whole_tables_read & GROWING
