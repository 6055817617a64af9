"""The cycle's statements beside many manifests that are not due: by index, and no dearer than what is due."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.store.volumes import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.store.volumes import PlanKind
    from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.xdist_group("manifest-plans")  # filling a database takes seconds

Link = psycopg.Connection[Any]

IDLE = 1_000_000 if os.environ.get("GANDY_TEST_FULL_JOURNEYS") else 50_000
DUE = 100
A_HANDFUL = 12
# A snapshot reads the manifest, its group, its parent's, letter's and entry's index.
PAGES_A_SNAPSHOT = 25
FILL = """
INSERT INTO gandy.manifest_group (owner, name) SELECT 'shop', 'group ' || g FROM generate_series(1, 50) g;
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds,
                            next_scheduled_run, next_look_at)
SELECT 'm-' || n, 'shop', 'Sell', 1 + n % 50, 'interval', 3600, at, at
FROM generate_series(1, {idle}) n,
     LATERAL (SELECT gandy.now() + n * interval '1 second' + interval '1 hour' AS at) t;
"""
MAKE_DUE = """
UPDATE gandy.manifest SET next_scheduled_run = gandy.now(), next_look_at = gandy.now()
WHERE id % ({idle} / {due}) = 0
"""


def fill(url: str, *, has_due: bool) -> None:
    """Fill a database; the statistics are from before anything came due, as they always are."""
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL.format(idle=IDLE).encode())
        connection.execute(b"VACUUM ANALYZE")
        if has_due:
            connection.execute(MAKE_DUE.format(idle=IDLE, due=DUE).encode())


@pytest.fixture(params=["force_generic_plan", "force_custom_plan"], ids=["generic", "custom"])
def kind(request: pytest.FixtureRequest) -> PlanKind:
    kind: PlanKind = request.param
    return kind


def connected(server: PostgresServer, *, has_due: bool) -> Iterator[Link]:
    name = server.template(f"manifests_due_{has_due}", lambda url: fill(url, has_due=has_due))
    with psycopg.connect(server.url(server._templates[name]), autocommit=True) as connection:
        yield connection


@pytest.fixture
def idle(postgres_server: PostgresServer) -> Iterator[Link]:
    yield from connected(postgres_server, has_due=False)


@pytest.fixture
def busy(postgres_server: PostgresServer) -> Iterator[Link]:
    yield from connected(postgres_server, has_due=True)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("wake_dependents", {"limit": 1_000}),
        ("count_due_by_group", {}),
        ("load_few_due", {"limit": 201}),
        ("load_all_due", {}),
        ("next_look", {}),
        ("cancel_timed_out", {"limit": 1_000}),
        ("find_silent_workers", {}),
        ("find_abandoned", {"after": 0, "limit": 1_000}),
        ("find_overaged", {"grace_seconds": 2400.0, "stale_seconds": 3600.0, "after": 0, "limit": 1_000}),
        ("find_stale_pending", {"stale_seconds": 1200.0, "after": 0, "limit": 1_000}),
    ],
)
def test_nothing_due_is_a_handful_of_pages(
    idle: Link, kind: PlanKind, name: str, values: dict[str, object]
) -> None:
    plan = explain(idle, name, kind, **values)

    assert plan.pages <= A_HANDFUL
    assert "manifest" not in plan.whole_tables_read


@pytest.mark.parametrize(("name", "values"), [("load_all_due", {}), ("load_few_due", {"limit": 10_001})])
def test_what_is_due_is_loaded_at_its_own_price(
    busy: Link, kind: PlanKind, name: str, values: dict[str, object]
) -> None:
    plan = explain(busy, name, kind, **values)

    assert plan.root["Actual Rows"] == DUE
    assert plan.pages <= DUE * PAGES_A_SNAPSHOT
    assert "manifest" not in plan.whole_tables_read


def test_few_of_many_due_are_loaded_at_the_price_of_few(busy: Link, kind: PlanKind) -> None:
    plan = explain(busy, "load_few_due", kind, limit=10)

    assert plan.root["Actual Rows"] == 10
    assert plan.pages <= 10 * PAGES_A_SNAPSHOT


@pytest.mark.parametrize("free_first", [False, True])
def test_shares_are_loaded_at_the_price_of_what_is_due(busy: Link, kind: PlanKind, free_first: bool) -> None:
    shares = json.dumps({str(group): 1 for group in range(1, 51)})

    plan = explain(busy, "load_shares", kind, shares=shares, free_first=free_first)

    assert 0 < plan.root["Actual Rows"] <= 50
    assert plan.pages <= DUE * PAGES_A_SNAPSHOT
    assert "manifest" not in plan.whole_tables_read


def test_manifests_move_on_at_the_price_of_the_decisions(busy: Link, kind: PlanKind) -> None:
    rows = busy.execute(
        b"SELECT id, xmin::text, next_scheduled_run FROM gandy.manifest WHERE next_look_at <= gandy.now()"
    ).fetchall()
    assert len(rows) == DUE
    ids, versions, cursors = (list(column) for column in zip(*rows, strict=True))
    nothing = [None] * DUE

    plan = explain(
        busy,
        "advance_manifests",
        kind,
        id=ids,
        version=versions,
        cursor=cursors,
        next_cursor=cursors,
        next_look=cursors,
        due_at=cursors,
        scheduled_at=cursors,
        origin=["schedule"] * DUE,
        skip_reason=nothing,
    )

    assert plan.root["Actual Rows"] == DUE, "each has moved on, and has its entry"
    assert plan.pages <= DUE * 80
    assert plan.pairs_compared <= DUE
    assert "manifest" not in plan.whole_tables_read
