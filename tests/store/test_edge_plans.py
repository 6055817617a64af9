"""What ends wakes what depends on it, and reads no more, beside many dependents whose parents did not end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.store.volumes import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.store.volumes import PlanKind
    from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.xdist_group("edge-plans")  # filling a database takes seconds

Link = psycopg.Connection[Any]

PARENTS = 20_000
ENDED = 20
PAGES_A_ROW = 60
TABLES = ("manifest", "manifest_edge", "manifest_output")
FILL = f"""
INSERT INTO gandy.manifest_group (owner, name) VALUES ('shop', 'default');
INSERT INTO gandy.manifest
    (external_id, owner, name, manifest_group_id, schedule_type, success_count, end_count)
SELECT 'parent-' || n, 'shop', 'Sell', 1, 'none', 1, 1 FROM generate_series(1, {PARENTS}) n;
INSERT INTO gandy.manifest
    (external_id, owner, name, manifest_group_id, schedule_type, depends_on_manifest_id)
SELECT 'child-' || n, 'shop', 'Sell', 1, 'dependent', n FROM generate_series(1, {PARENTS}) n;
INSERT INTO gandy.manifest_edge (child_id, parent_id, kind, seen, is_output_passed)
SELECT {PARENTS} + n, n, CASE n % 2 WHEN 0 THEN 'success' ELSE 'failure' END, 0, n % 2 = 0
FROM generate_series(1, {PARENTS}) n;
INSERT INTO gandy.manifest_output (manifest_id, success_count, output)
SELECT n * 2, 1, '1' FROM generate_series(1, {PARENTS // 2}) n;
UPDATE gandy.manifest SET has_dependents_due = true WHERE id <= {ENDED};
"""  # noqa: S608 numbers of this module
CHILDREN = list(range(PARENTS + 1, PARENTS + ENDED + 1))
NAMES = [f"child-{number}" for number in range(1, ENDED + 1)]
ABOVE = [f"parent-{number}" for number in range(1, ENDED + 1)]
#: Statements that read along an index, after `keep_order`.
WALKS = {"list_dependencies"}
EDGES = {"place": [0] * ENDED, "kind": ["end"] * ENDED, "is_output_passed": [False] * ENDED}
DECIDED = {
    "id": CHILDREN,
    "cursor": [None] * ENDED,
    "next_cursor": [None] * ENDED,
    "next_look": [None] * ENDED,
    "due_at": ["2026-01-05T12:00:00Z"] * ENDED,
    "scheduled_at": ["2026-01-05T12:00:00Z"] * ENDED,
    "origin": ["dependent"] * ENDED,
    "skip_reason": [None] * ENDED,
}


def fill(url: str, *, are_statistics_true: bool) -> None:
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE gandy.{table} SET (autovacuum_enabled = off)".encode())
        if not are_statistics_true:
            connection.execute(b"ANALYZE")
        connection.execute(b"SET session_replication_role = replica")
        for part in FILL.split(";\n"):
            connection.execute(part.encode())
        if are_statistics_true:
            connection.execute(b"ANALYZE")


@pytest.fixture(params=[True, False], ids=["true statistics", "empty statistics"])
def link(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> Iterator[Link]:
    is_true: bool = request.param
    name = postgres_server.template(
        f"many_edges_{is_true}", lambda url: fill(url, are_statistics_true=is_true)
    )
    with psycopg.connect(
        postgres_server.url(postgres_server._templates[name]), autocommit=True
    ) as connection:
        yield connection


@pytest.fixture(params=["force_generic_plan", "force_custom_plan"], ids=["generic", "custom"])
def kind(request: pytest.FixtureRequest) -> PlanKind:
    kind: PlanKind = request.param
    return kind


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("wake_dependents", {"limit": 1_000}),
        ("load_views", {"ids": CHILDREN}),
        ("list_parents", {"manifest_id": CHILDREN[0], "owner": "shop"}),
        ("list_dependents", {"manifest_id": 1, "owner": "shop", "searched": 100, "limit": 20}),
        ("list_dependencies", {"owner": "shop", "members": ENDED, "limit": ENDED}),
        ("load_passed_output", {"manifest_id": CHILDREN[1]}),
        ("load_ancestors", {"external_ids": NAMES, "owner": "shop"}),
        ("insert_edges", {"child": NAMES, "parent": ABOVE, "owner": "shop", **EDGES}),
        ("drop_edges", {"child_id": CHILDREN, "kept": ["{}"] * ENDED}),
        ("forget_outputs", {"ids": list(range(1, ENDED + 1))}),
        ("find_removal_blockers", {"manifest_id": 1, "owner": "shop"}),
        ("find_orphaned_parents", {"owner": None, "limit": 20}),
        ("find_train_of_manifest", {"owner": "shop", "external_id": "parent-7"}),
    ],
)
def test_edges_cost_what_is_asked_of_them(
    link: Link, kind: PlanKind, name: str, values: dict[str, object]
) -> None:
    plan = explain(link, name, kind, "keep_order" if name in WALKS else None, **values)

    assert plan.whole_tables_read.isdisjoint(TABLES)
    assert plan.pages <= ENDED * PAGES_A_ROW


def test_a_dependent_is_queued_at_the_price_of_its_edges(link: Link, kind: PlanKind) -> None:
    rows = link.execute("SELECT xmin::text FROM gandy.manifest WHERE id = ANY(%s)", [CHILDREN]).fetchall()

    plan = explain(link, "advance_manifests", kind, version=[row[0] for row in rows], **DECIDED)

    assert plan.root["Actual Rows"] == ENDED
    assert plan.whole_tables_read.isdisjoint(TABLES)
    assert plan.pages <= ENDED * 2 * PAGES_A_ROW


def test_only_the_dependents_of_what_ended_get_a_look(link: Link, kind: PlanKind) -> None:
    plan = explain(link, "wake_dependents", kind, limit=1_000)

    # Half of the marked parents have no dependent of their success: these follow failures.
    assert plan.root["Actual Rows"] == ENDED + ENDED // 2
