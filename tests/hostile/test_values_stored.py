"""Values that were accepted, or stored by an older version, stop neither a claim nor a listing."""

from __future__ import annotations

import asyncio
import math
import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from gandy import NO_TIMEOUT, Days, Gandy, every
from gandy.app.keywords import ScheduleKeywords
from gandy.desk.audit import local_operator
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.explain import explain_manifest
from gandy.desk.manifests import ManifestDesk
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import RunInsights
from gandy.errors import GandyError
from gandy.model.owners import ALL_OWNERS
from gandy.settings.bounds import LAST_INSTANT
from gandy.store.reading.listings import EntryFilter, LetterFilter, RunFilter
from gandy.store.reading.views import ManifestFilter
from tests.hostile.values import HOSTILE, innocent, make_app, still_works
from tests.support.waiting import eventually
from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["migrated_url"]

#: What the columns of both databases hold, and what no code of today would write.
INSANE_SECONDS: Final = (1e300, 1e12, 4e9, math.inf, math.nan, 1e-300)


@pytest.fixture
async def app(migrated_url: str) -> AsyncIterator[Gandy]:
    """An open application, on each database."""
    async with make_app(migrated_url) as opened:
        await opened.seed()
        yield opened


async def look_at_everything(app: Gandy) -> None:
    """Read every listing, and every manifest by itself."""
    operator = local_operator("cli")
    assert await QueueDesk(app.database, operator, owners=ALL_OWNERS).list(
        EntryFilter(status=None, limit=1_000)
    )
    await RunInsights(app.database, ALL_OWNERS, app.registry).list(RunFilter(limit=1_000))
    await DeadLetterDesk(app.database, operator, owners=ALL_OWNERS).list(LetterFilter(limit=1_000))
    desk = ManifestDesk(app.database, operator, owners=ALL_OWNERS, registry=app.registry)
    for manifest in await desk.list(ManifestFilter(limit=1_000)):
        await desk.show(manifest.external_id)
        await explain_manifest(app.database, manifest.external_id, owners=ALL_OWNERS)


def declare_all(app: Gandy) -> int:
    """Declare a manifest for every hostile value of every option that is accepted."""
    before = len(app.declarations.manifests)
    for number, hostile in enumerate(HOSTILE):
        for option in ScheduleKeywords.__annotations__:
            given: dict[str, Any] = {option: hostile.value}
            try:
                app.schedule(f"{option}-{number}", innocent, 1, every(hours=1), **given)
            except GandyError:
                continue
    return len(app.declarations.manifests) - before


async def test_what_was_declared_is_seeded_decided_and_shown(migrated_url: str) -> None:
    app = make_app(migrated_url)
    assert declare_all(app) > 40
    app.schedule_once(
        "doomsday",
        innocent,
        1,
        at=LAST_INSTANT,
        variance=timedelta(days=3_650),
        exclude=Days.on("mon"),
    )
    app.schedule_once("decade", innocent, 1, delay=timedelta(days=3_650))
    async with app:
        await app.seed()
        ticked = await app.tick("manifest-manager")
        assert not ticked.get("failed")
        await look_at_everything(app)
        await still_works(app)


@pytest.mark.parametrize("seconds", INSANE_SECONDS)
async def test_a_timeout_of_an_older_version_stops_no_claim(
    app: Gandy, migrated_url: str, seconds: float
) -> None:
    if app.database.dialect == "sqlite" and math.isnan(seconds):
        seconds = math.inf  # it stores no NaN
    await app.enqueue(innocent, 1)
    await app.trigger("kept")
    execute(
        migrated_url,
        "UPDATE {work_queue} SET timeout_seconds = %(x)s, retry_delay_seconds = %(x)s",
        x=seconds,
    )
    execute(
        migrated_url,
        "UPDATE {manifest} SET timeout_seconds = %(x)s, retry_delay_seconds = %(x)s, "
        "keep_for_seconds = %(x)s, variance_seconds = %(x)s, misfire_threshold_seconds = %(x)s",
        x=seconds,
    )

    await look_at_everything(app)
    await still_works(app)
    await app.tick("manifest-manager")
    await look_at_everything(app)


async def test_a_delay_of_an_older_version_hides_no_listing(app: Gandy, migrated_url: str) -> None:
    job = await app.enqueue(innocent, 1, delay=timedelta(days=1))
    late = "9999-12-31T23:59:59.999999Z" if app.database.dialect == "sqlite" else "11026-01-01T00:00:00Z"
    execute(migrated_url, "UPDATE {work_queue} SET scheduled_at = %(x)s, due_at = %(x)s", x=late)

    await look_at_everything(app)
    (entry,) = await QueueDesk(app.database, local_operator("cli"), owners=ALL_OWNERS).list(
        EntryFilter(status="queued")
    )
    assert (entry.id, entry.scheduled_at.year) == (job.id, 9999)
    await still_works(app)


def execute(url: str, query: str, **values: object) -> list[tuple[Any, ...]]:
    """Write to the tables as no code of today would; names in braces are those of tables."""
    if url.startswith("sqlite"):
        text = query.replace("{", "").replace("}", "").replace("%(x)s", ":x")
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            return connection.execute(text, values).fetchall()
    text = query.replace("{", "gandy.").replace("}", "")
    with psycopg.connect(url) as link:
        cursor = link.execute(text.encode(), values)
        return cursor.fetchall() if cursor.description else []


async def slow() -> None:
    await asyncio.Event().wait()


async def test_a_run_without_a_timeout_has_no_deadline_and_no_net_by_age(migrated_url: str) -> None:
    app = make_app(
        migrated_url,
        manifest_manager={"stale_in_progress_after": "10ms", "stale_grace": "10ms"},
        worker={"shutdown_grace": "0s"},
    )
    app.train(slow)
    async with app:
        job = await app.enqueue(slow, timeout=NO_TIMEOUT)
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(stop))
        insights = RunInsights(app.database, ALL_OWNERS, app.registry)
        await eventually(lambda: _is_running(insights, job.id), "the run has begun")
        for _ in range(3):
            await app.tick("manifest-manager")
        assert await _is_running(insights, job.id)
        rows = execute(migrated_url, "SELECT deadline_at FROM {metadata} WHERE id = %(x)s", x=job.id)
        assert rows == [(None,)]
        stop.set()
        await working


async def _is_running(insights: RunInsights, run_id: int) -> bool:
    found = await insights.list(RunFilter(limit=10))
    return any(run.id == run_id and run.state == "in_progress" for run in found)
