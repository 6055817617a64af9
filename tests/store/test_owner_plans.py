"""Manifests are found for their owner by index, beside many of two owners, at the price of the answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.store.volumes import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.store.volumes import PlanKind
    from tests.support.postgres import PostgresServer

Link = psycopg.Connection[Any]

FEW = 20
PAGES_A_ROW = 40
IDS = [f"m-{number:06}" for number in range(1, FEW + 1)]
FILL = """
INSERT INTO gandy.manifest_group (owner, name) VALUES ('shop', 'default'), ('bakery', 'default');
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds)
SELECT 'm-' || lpad(n::text, 6, '0'), g.owner, 'Sell', g.id, 'interval', 3600
FROM gandy.manifest_group g, generate_series(1, 40000) n;
INSERT INTO gandy.manifest
    (external_id, owner, name, manifest_group_id, schedule_type, depends_on_manifest_id)
SELECT 'child-' || n, p.owner, 'Sell', p.manifest_group_id, 'dependent', p.id
FROM gandy.manifest p, generate_series(1, 500) n WHERE p.external_id = 'm-000001';
INSERT INTO gandy.manifest_edge (child_id, parent_id, kind)
SELECT id, depends_on_manifest_id, 'success' FROM gandy.manifest WHERE depends_on_manifest_id > 0;
VACUUM ANALYZE;
"""
PAGE = {
    "train": None,
    "group": None,
    "schedule_type": None,
    "is_enabled": None,
    "prefix": "",
    "prefix_end": "\U0010ffff",
    "after": "",
    "limit": FEW,
    "searched": FEW,
}
#: What a changed manifest may leave empty.
EMPTY = [
    "properties",
    "property_type_name",
    "cron_expression",
    "interval_seconds",
    "scheduled_at",
    "parent",
    "retry_delay_seconds",
    "timeout_seconds",
    "keep_for_seconds",
    "keep_last",
    "batch",
    "next_scheduled_run",
    "next_look_at",
    "reason",
]


def fill(url: str) -> None:
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for part in FILL.split(";\n"):
            if part.strip():
                connection.execute(part.encode())


@pytest.fixture
def link(postgres_server: PostgresServer) -> Iterator[Link]:
    name = postgres_server.template("two_owners", fill)
    url = postgres_server.url(postgres_server._templates[name])
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture(params=["force_generic_plan", "force_custom_plan"], ids=["generic", "custom"])
def kind(request: pytest.FixtureRequest) -> PlanKind:
    kind: PlanKind = request.param
    return kind


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lock_manifest", {"external_id": "m-000007"}),
        ("show_manifest", {"external_id": "m-000007"}),
        ("find_declared", {"external_ids": IDS}),
        ("lock_declared", {"external_ids": IDS}),
        ("load_ancestors", {"external_ids": IDS}),
        ("find_children", {"parent_id": [1], "external_id": ["child-7"]}),
        ("load_children", {"ids": [7], "limit": 10_000}),
        ("find_equal_waiting", {"manifest_id": [7], "digest": ["x"]}),
        ("keep_activations", {"manifest_id": [7], "input": ["null"], "digest": ["x"]}),
        ("promote_waiting", {"ids": [7]}),
        ("find_queued_beside", {"ids": [7]}),
        ("step_back_entries", {"id": [7], "digest": ["x"]}),
        ("page_waiting_manifests", {"after": 0, "limit": 100}),
        ("find_stalled_turns", {"counted": 100, "limit": 20}),
        ("find_stalled_orphans", {"counted": 100, "limit": 20}),
        ("cancel_stranded", {"manifest_ids": [7]}),
        ("find_most_overdue", {"patience_seconds": 30.0}),
        ("list_owners", {}),
        ("find_owners_of_manifest", {"owners": ["bakery", "shop"], "name": "m-000007"}),
        ("list_dependencies", {"members": 100, "limit": 100}),
        ("search_manifests", PAGE),
        ("search_manifests_of_train", {**PAGE, "train": "Sell"}),
        ("search_disabled_manifests", PAGE),
    ],
)
def test_what_is_found_for_an_owner_costs_what_it_is(
    link: Link, kind: PlanKind, name: str, values: dict[str, object]
) -> None:
    if name.startswith("search_"):
        link.execute("SET enable_sort = off; SET enable_bitmapscan = off")

    plan = explain(link, name, kind, owner="bakery", **values)

    assert plan.pages <= (FEW + 5) * PAGES_A_ROW
    assert "manifest" not in plan.whole_tables_read


def test_manifests_are_changed_at_the_price_of_the_changes(link: Link, kind: PlanKind) -> None:
    rows: dict[str, list[object]] = {name: [None] * FEW for name in EMPTY}
    same = {
        "name": "Sell",
        "manifest_group_id": 1,
        "schedule_type": "none",
        "timezone": "UTC",
        "variance_seconds": 0,
        "exclusions": "[]",
        "misfire_policy": "do_nothing",
        "misfire_threshold_seconds": 60,
        "max_retries": 3,
        "is_retried": True,
        "priority": 1,
        "is_enabled": True,
        "declared": json.dumps({}),
        "overrides": json.dumps({}),
        "completed_at": None,
        "used_instants": "{}",
        "origin": "declared",
        "is_orphaned": False,
    }
    rows |= {name: [value] * FEW for name, value in same.items()}

    plan = explain(link, "update_manifests", kind, owner="shop", external_id=IDS, **rows)

    assert plan.root["Actual Rows"] == FEW
    assert plan.pages <= FEW * 2 * PAGES_A_ROW
    assert "manifest" not in plan.whole_tables_read
