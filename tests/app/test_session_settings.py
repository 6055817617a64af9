"""Settings of a database, or of its role, that change what statements mean."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest

from gandy import every
from gandy.store.drivers.opening import migrate
from tests.app.shop import double, make_shop

SETTINGS = [
    ("array_nulls", "off"),
    ("standard_conforming_strings", "off"),
    ("transform_null_equals", "on"),
    ("datestyle", "german"),
    ("intervalstyle", "sql_standard"),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=[name for name, _ in SETTINGS])
async def test_declarations_and_jobs_pass_a_database_with_settings_of_its_own(
    postgres_url: str, name: str, value: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        database = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{database}" SET {name} = {value}'.encode())
    migrate(postgres_url)
    app = make_shop(postgres_url)
    app.group("sums", max_active_jobs=2)
    app.group("others", priority=3)
    app.schedule("doubling", double, 21, every(hours=1), group="sums").then("again", double, 4)
    async with app:
        await app.tick("manifest-manager")
        many = [
            *await app.enqueue_many(double, [1, 2], group="sums"),
            *await app.enqueue_many(double, [3, 4], unique_for=timedelta(hours=1)),
        ]
        await app.work(asyncio.Event(), until_idle=True)
        found = [await job.result(timeout=20) for job in many]
        groups = await app.groups.list()
        manifests = await app.manifests.list()

    assert found == [2, 4, 6, 8]
    assert {group.name: group.max_active_jobs for group in groups}["sums"] == 2
    assert {manifest.external_id for manifest in manifests} == {"doubling", "again"}
