"""New manifests are stored at their own price, although the statistics are those of an empty table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from gandy.store.statements import load_statements
from tests.store.volumes import PARAMETER, explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.store.volumes import Plan, PlanKind
    from tests.support.postgres import PostgresServer

Link = psycopg.Connection[Any]

NEW = 2_000
PAGES_A_ROW = 40
PARENTS = b"""
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type)
SELECT 'parent-' || n, 'shop', 'Sell', 1, 'none' FROM generate_series(0, %(parents)s::int - 1) n
"""
GIVEN: dict[str, object] = {
    "name": "Sell",
    "manifest_group_id": 1,
    "schedule_type": "none",
    "timezone": "UTC",
    "max_retries": 3,
    "is_retried": True,
    "variance_seconds": 0,
    "exclusions": "[]",
    "misfire_policy": "do_nothing",
    "misfire_threshold_seconds": 60,
    "priority": 1,
    "is_enabled": True,
    "declared": "{}",
}


def fill(url: str) -> None:
    """Take statistics while there is one manifest."""
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"ALTER TABLE gandy.manifest SET (autovacuum_enabled = off)")
        connection.execute(b"INSERT INTO gandy.manifest_group (owner, name) VALUES ('shop', 'default')")
        connection.execute(
            b"INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type)"
            b" VALUES ('first', 'shop', 'Sell', 1, 'none')"
        )
        connection.execute(b"ANALYZE gandy.manifest")


@pytest.fixture
def link(postgres_server: PostgresServer) -> Iterator[Link]:
    name = postgres_server.template("no_manifests_yet", fill)
    with postgres_server.database(name) as url, psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture(params=["force_generic_plan", "force_custom_plan"], ids=["generic", "custom"])
def kind(request: pytest.FixtureRequest) -> PlanKind:
    kind: PlanKind = request.param
    return kind


def insert(link: Link, kind: PlanKind, **each: list[object]) -> Plan:
    names = set(PARAMETER.findall(load_statements("postgres")["insert_manifests"])) - {"owner", "origin"}
    rows: dict[str, object] = {name: [GIVEN.get(name)] * NEW for name in names}
    external_ids = [f"new-{number}" for number in range(NEW)]
    return explain(
        link,
        "insert_manifests",
        kind,
        **rows | {"external_id": external_ids, "owner": "shop", "origin": "declared"} | each,
    )


def lookups(plan: Plan) -> int:
    """How often the table that grows meanwhile was read."""
    return sum(
        round(node["Actual Loops"])
        for node in plan.nodes()
        if "Scan" in node["Node Type"] and node.get("Relation Name") == "manifest"
    )


def test_manifests_without_a_parent_look_up_none(link: Link, kind: PlanKind) -> None:
    plan = insert(link, kind, parent=[None] * NEW)

    assert lookups(plan) <= 1


@pytest.mark.parametrize("parents", [1, NEW])
def test_all_parents_are_looked_up_at_once(link: Link, kind: PlanKind, parents: int) -> None:
    link.execute(PARENTS, {"parents": parents})

    plan = insert(
        link, kind, schedule_type=["dependent"] * NEW, parent=[f"parent-{n % parents}" for n in range(NEW)]
    )

    assert lookups(plan) == 1
    assert plan.pages <= NEW * PAGES_A_ROW
