"""What a page costs does not follow what is stored: 333,000 runs, 33,000 manifests, every filter."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from gandy.store.drivers.postgres_values import bind
from gandy.store.drivers.sqlite_steps import execute_step
from gandy.store.drivers.sqlite_values import StatementClock
from gandy.store.reading.listings import SEARCHED
from tests.store.volumes import explain
from tests.web.addresses import addresses
from tests.web.conftest import client_of
from tests.web.crowd import fill
from tests.web.shop import make_shop, populate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from gandy.store.statements import Step
    from tests.store.volumes import Plan, PlanKind

pytestmark = pytest.mark.timeout(300)

MOST_STATEMENTS = 33  # the page of tables asks once for each bound of a table, for owners and for sizes
MOST_ROWS = 6 * SEARCHED
"""No statement may look at more: counting ends at 10,000 in each table, and so does a search."""
MOST_PAGES = 10_000
MOST_STEPS = 4_000_000
"""Instructions of SQLite's machine; a scan of all runs takes three times as many."""
WALKS = ("search_", "gather_")
PLAN_KINDS: tuple[PlanKind, ...] = ("force_generic_plan", "force_custom_plan")


@asynccontextmanager
async def crowded(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """An application that has done a little, long ago, and very much of one kind since."""
    migrate(url)
    async with make_shop(url) as app, client_of(app) as client:
        await populate(app)
        fill(url, share=3)
        yield client


async def ask_for_everything(
    client: httpx.AsyncClient, statements: list[Step]
) -> dict[str, tuple[str, Step]]:
    """Read every address, and remember each different statement with the first that needed it."""
    asked: dict[str, tuple[str, Step]] = {}
    entries = (await client.get("/api/v1/queue?status=undispatched")).json()["items"]
    letters = (await client.get("/api/v1/dead-letters?train=read_feed&status=awaiting_intervention")).json()[
        "items"
    ]
    runs = (await client.get("/api/v1/runs?train=log_in")).json()["items"]
    assert letters
    assert runs, "what is rare and old is found all the same"
    for address in addresses(
        run_id=[run["id"] for run in runs],
        entry_id=[entries[0]["id"]],
        letter_id=[letters[0]["id"]],
    ):
        statements.clear()
        answer = await client.get(address)
        assert answer.status_code == 200, (address, answer.text[:200])
        assert len(statements) <= MOST_STATEMENTS, address
        asked |= {repr(step): (address, step) for step in statements if repr(step) not in asked}
    assert len(asked) > 200
    return asked


async def test_no_address_reads_more_because_more_is_stored(
    postgres_url: str, statements: list[Step]
) -> None:
    async with crowded(postgres_url) as client:
        asked = await ask_for_everything(client, statements)

    with psycopg.connect(postgres_url, autocommit=True) as link:
        plans = [
            (address, step.name, planned(link, step, kind))
            for address, step in asked.values()
            for kind in PLAN_KINDS
        ]

    costs = [(plan.rows_examined, plan.pages, name, address) for address, name, plan in plans]
    assert [cost for cost in costs if cost[0] > MOST_ROWS or cost[1] > MOST_PAGES] == []
    assert {table for _, _, plan in plans for table in scanned(plan)} <= {"worker"}


def planned(link: psycopg.Connection[Any], step: Step, kind: PlanKind) -> Plan:
    """Run a statement once more, as a listing would, and look at its plan."""
    is_off = "off" if step.name.startswith(WALKS) else "on"
    link.execute(f"SET enable_sort = {is_off}; SET enable_bitmapscan = {is_off}".encode())
    return explain(link, step.name, kind, **bind(step))


def scanned(plan: Plan) -> set[str]:
    """Name the tables that were read whole; a node that was never run has read none."""
    return {
        node["Relation Name"]
        for node in plan.nodes()
        if node["Node Type"] == "Seq Scan" and node["Actual Loops"] > 0
    }


async def test_no_address_takes_more_steps_because_more_is_stored(
    sqlite_url: str, statements: list[Step]
) -> None:
    async with crowded(sqlite_url) as client:
        asked = await ask_for_everything(client, statements)

    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        StatementClock(lambda: datetime.now(UTC)).register(connection)
        costs = [(steps_of(connection, step), step.name, address) for address, step in asked.values()]

    assert [cost for cost in costs if cost[0] > MOST_STEPS] == []


def steps_of(connection: sqlite3.Connection, step: Step) -> int:
    thousands = 0

    def count() -> int:
        nonlocal thousands
        thousands += 1
        return 0

    connection.set_progress_handler(count, 1_000)
    execute_step(connection, step)
    connection.set_progress_handler(None, 0)
    return thousands * 1_000
