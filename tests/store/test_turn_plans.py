"""What promotes, joins and heals waiting entries reads what it needs of them, however many wait."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.store.volumes import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.store.volumes import PlanKind
    from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.xdist_group("turn-plans")  # filling a database takes seconds

PAGES = 200
NOW = datetime.now(UTC)
FILL = """
INSERT INTO gandy.manifest_group (owner, name) VALUES ('shop', 'default');
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type)
SELECT 'm-' || n, 'shop', 'Sell', g.id, 'none' FROM gandy.manifest_group g, generate_series(1, 1000) n;
INSERT INTO gandy.work_queue (owner, train_name, input, input_digest, manifest_id, manifest_group_id, status,
                              origin, due_at, scheduled_at)
SELECT 'shop', 'Sell', to_json(n), m.id || ':d-' || n, m.id, m.manifest_group_id, 'waiting', 'dormant',
       gandy.now() + n * interval '1 microsecond', gandy.now()
FROM gandy.manifest m, generate_series(1, 9000) n WHERE n <= 50 OR m.external_id IN ('m-1', 'm-4', 'm-5');
UPDATE gandy.manifest SET orphaned_at = gandy.now() - interval '1 day' WHERE external_id = 'm-5';
"""
STATEMENTS: list[tuple[str, dict[str, object]]] = [
    ("promote_waiting", {"ids": [1, 2, 3]}),
    ("promote_waiting", {"ids": [4]}),
    ("find_equal_waiting", {"manifest_id": [1, 1, 2], "digest": ["d-7", "x", "d-8"]}),
    ("keep_activations", {"manifest_id": [1], "input": ["null"], "digest": ["x"]}),
    ("page_waiting_manifests", {"after": 0, "limit": 20}),
    ("step_back_entries", {"id": [7], "digest": ["x"]}),
    ("lock_removable_manifests", {"ids": [5, 6], "before": NOW, "once_before": NOW}),
    ("find_stalled_orphans", {"owner": None, "counted": 100, "limit": 20}),
]


@pytest.fixture(scope="module", params=[True, False], ids=["true-statistics", "empty-statistics"])
def link(
    request: pytest.FixtureRequest, postgres_server: PostgresServer
) -> Iterator[psycopg.Connection[Any]]:
    """A database in which 76,850 entries wait."""
    with postgres_server.database() as url:
        migrate(url)
        with psycopg.connect(url, autocommit=True) as link:
            link.execute("ALTER TABLE gandy.work_queue SET (autovacuum_enabled = off)")
            link.execute(FILL)
            if request.param:
                link.execute("VACUUM ANALYZE gandy.work_queue, gandy.manifest")
            yield link


@pytest.mark.parametrize("kind", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize(("name", "values"), STATEMENTS)
def test_a_turn_costs_what_it_takes(
    link: psycopg.Connection[Any], kind: PlanKind, name: str, values: dict[str, object]
) -> None:
    link.execute("UPDATE gandy.manifest SET is_enabled = false WHERE external_id = 'm-4'")

    plan = explain(link, name, kind, **values)

    assert plan.pages <= PAGES
    assert "work_queue" not in plan.whole_tables_read
