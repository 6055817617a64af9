"""A cycle that finds nothing costs the same whatever is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg

from gandy.store.drivers.sqlite_steps import statement_parts
from gandy.store.drivers.sqlite_values import adapted
from gandy.store.statements import Statement, load_statements
from gandy.upkeep.declaration import UPKEEP, ByRow
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from gandy.store.cleanup import Found
    from gandy.store.statements import Operation
    from tests.support.history import Past

KEPT = 200_000
#: What was found, names of trains, and the live runs of a worker that has been silent for a day.
SMALL_SCANS = (
    "SCAN dead",
    "json_each",
    "SCAN n ",
    "SCAN kept",
    "SCAN r USING INDEX ix_work_queue_live_run",
    "SCAN CONSTANT ROW",
)
#: Some levels of the indexes that grew; a walk over what is kept would be thousands.
HIGHER_INDEXES = 80


def searches(past: Past) -> list[Statement]:
    """The statements with which every walk begins."""
    now = past.world.clock.now
    dead = [each.means.dead(past.request(), now) for each in UPKEEP if isinstance(each.means, ByRow)]
    return [step for walk in dead for step in first_steps(walk.find(None, 1000))]


def first_steps(finding: Operation[Found]) -> list[Statement]:
    """The first statement, and the next one if the first only asks for the owners."""
    first = next(finding)
    assert isinstance(first, Statement)
    if first.name != "list_owners_of_runs":
        return [first]
    second = finding.send([SimpleNamespace(owner=OWNER)])
    assert isinstance(second, Statement)
    return [first, second]


def fill(past: Past) -> None:
    """Keep much of everything, and let nothing of it be dead."""
    past.runs(KEPT // 2, name="SendMail", started=timedelta(days=1), lines=1)
    past.runs(KEPT // 4, name="MakeReport", started=timedelta(days=1), bucket=past.day(5))
    past.runs(KEPT // 4, name="ManifestManagerTrain", started=timedelta(minutes=5))
    now, many = past.world.clock.now, range(KEPT // 40)
    entries = [
        (3_000_000 + number, OWNER, "SendMail", 1, status, "active", "ad_hoc", *[past.value(now)] * 3)
        for number, status in enumerate(status for _ in many for status in ("queued", "skipped", "cancelled"))
    ]
    columns = (
        "id, owner, train_name, manifest_group_id, status, reason, origin, due_at, scheduled_at, created_at"
    )
    past.insert_many("work_queue", columns, entries)
    audits = [(past.value(now), OWNER, "me", "cli", "disable", "x") for _ in many]
    past.insert_many("audit", "at, owner, actor, face, action, subject", audits)
    letters = [(OWNER, 1, "SendMail", n, "acknowledged", "x", *[past.value(now)] * 2) for n in many]
    columns = (
        "owner, manifest_group_id, train_name, metadata_id, status, reason, dead_lettered_at, resolved_at"
    )
    past.insert_many("dead_letter", columns, letters)


def buffers(past: Past) -> dict[str, int]:
    found = {}
    with psycopg.connect(past.world.url) as link:
        link.execute(
            load_statements("postgres")["configure_session"].encode(), {"backend": link.info.backend_pid}
        )
        link.execute(load_statements("postgres")["begin_batch"].encode(), {"milliseconds": 1000})
        for search in searches(past):
            query = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + load_statements("postgres")[search.name]
            (plan,) = link.execute(query.encode(), search.parameters).fetchone() or ()
            root = plan[0]["Plan"]
            answer = link.execute(load_statements("postgres")[search.name].encode(), search.parameters)
            assert [row for row in answer if row[0] not in {0, OWNER}] == [], search.name
            key = f"{search.name} {search.parameters.get('status', '')}"
            found[key] = root["Shared Hit Blocks"] + root["Shared Read Blocks"]
    return found


async def test_finding_nothing_reads_no_more_of_a_full_database_than_of_an_empty_one(
    postgres_past: Past,
) -> None:
    past = postgres_past
    await past.world.seed(*(manifest(f"m{number}") for number in range(200)))
    empty = buffers(past)
    fill(past)
    with psycopg.connect(past.world.url, autocommit=True) as link:
        link.execute("VACUUM ANALYZE")

    full = buffers(past)

    assert len(full) >= 14
    assert {
        name: (empty[name], blocks) for name, blocks in full.items() if blocks > empty[name] + HIGHER_INDEXES
    } == {}


def test_every_search_follows_an_index(sqlite_past: Past) -> None:
    past, scans = sqlite_past, []
    with closing(sqlite3.connect(past.world.url.removeprefix("sqlite:///"))) as link:
        for search in searches(past):
            query = "EXPLAIN QUERY PLAN " + statement_parts(search.name)[-1]
            values = adapted(search.parameters, search.parameters.values())
            rows: list[Any] = link.execute(query, values).fetchall()
            scans += [(search.name, row[3]) for row in rows if row[3].startswith("SCAN")]

    assert [each for each in scans if not any(small in each[1] for small in SMALL_SCANS)] == []
