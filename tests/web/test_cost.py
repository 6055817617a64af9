"""What a page costs does not follow what is stored: counted in statements, and in rows that they read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from gandy.store.drivers.postgres import PostgresTransaction
from gandy.store.drivers.postgres_binding import bind
from gandy.store.statements import load_statements
from tests.web.conftest import client_of
from tests.web.shop import make_shop, populate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.store.statements import Rows, Step

RUNS = 60_000
MANIFESTS = 40_000
MOST_ROWS = 25_000
"""No single node of a plan may read more: counting ends at 10,000, the chart looks at 5,000 runs."""
MOST_STATEMENTS = 45

FILL_RUNS = """
INSERT INTO gandy.metadata
    (id, bucket, owner, name, train_state, created_at, start_time, end_time, keep_until)
SELECT nextval('gandy.attempt_id'), (now() + interval '3 days')::date, 'shop', 'send_parcel',
       CASE WHEN mod(n, 50) = 0 THEN 'failed' ELSE 'completed' END, at, at, at, now() + interval '3 days'
FROM generate_series(1, %s) AS n, LATERAL (SELECT now() - n * interval '1 second' AS at) AS a
"""
FILL_MANIFESTS = """
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds)
SELECT 'bulk-' || n, 'shop', 'send_parcel', (SELECT min(id) FROM gandy.manifest_group), 'interval', 3600
FROM generate_series(1, %s) AS n
"""


PAGES = [
    "/",
    "/charts/throughput",
    "/manifests",
    "/manifests?q=bulk-1",
    "/manifests/nightly",
    "/groups",
    "/groups/etl",
    "/runs",
    "/runs?state=failed",
    "/runs?train=log_in",
    "/runs?manifest=nightly",
    "/queue",
    "/dead-letters",
    "/workers",
    "/trains",
    "/tables",
    "/audit",
    "/metrics",
    "/api/v1/runs?limit=500",
    "/api/v1/manifests?limit=500",
]


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """Every statement that an application runs from here on."""
    seen: list[Step] = []
    execute = PostgresTransaction._execute

    async def remembering(self: PostgresTransaction, step: Step) -> Rows:
        seen.append(step)
        return await execute(self, step)

    monkeypatch.setattr(PostgresTransaction, "_execute", remembering)
    return seen


@pytest.mark.timeout(240)
async def test_no_page_reads_more_because_more_is_stored(postgres_url: str, statements: list[Step]) -> None:
    migrate(postgres_url)
    async with make_shop(postgres_url) as app, client_of(app) as client:
        await populate(app)
        with psycopg.connect(postgres_url, autocommit=True) as link:
            link.execute(FILL_RUNS, (RUNS,))
            link.execute(FILL_MANIFESTS, (MANIFESTS,))
            link.execute("ANALYZE")
            link.execute(load_statements("postgres")["configure_session"].encode())
            found: list[tuple[str, str, int]] = []
            for path in PAGES:
                statements.clear()
                answer = await client.get(path)
                asked = list(statements)

                assert answer.status_code == 200, path
                assert len(asked) <= MOST_STATEMENTS, path
                found += [(path, step.name, rows_read(link, step)) for step in asked]

    worst = [each for each in found if each[2] > MOST_ROWS]
    assert worst == [], str(worst)


def rows_read(link: psycopg.Connection[Any], step: Step) -> int:
    """Run a statement once more and say how many rows its busiest node looked at."""
    text = load_statements("postgres")[step.name]
    found = link.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}".encode(), bind(step)).fetchone()
    assert found is not None
    plan = found[0] if isinstance(found[0], list) else json.loads(found[0])
    return max(_looked_at(node) for node in _nodes(plan[0]["Plan"]))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _looked_at(node: dict[str, Any]) -> int:
    return int((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
