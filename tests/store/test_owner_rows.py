"""What the tables themselves hold apart, and what becomes of a database in which owners were mixed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.errors import ParentNotFoundError
from gandy.model.schedule import Dependent
from gandy.store.drivers import migrate as migrations
from gandy.store.drivers.opening import migrate
from gandy.store.overriding import override_manifest
from gandy.store.runs import RunStart, start_run
from gandy.store.seeding import add_manifest
from tests.support.world import OWNER, manifest, open_world

if TYPE_CHECKING:
    from gandy.store.drivers.migrate import Migration
    from gandy.store.statements import Dialect
    from tests.support.world import World

OTHER = "bakery"
HOLDS_APART = 4  #: the migration
MIXED = """
INSERT INTO manifest_group (owner, name, created_at, updated_at)
VALUES ('shop', 'default', NOW, NOW), ('bakery', 'default', NOW, NOW);
INSERT INTO manifest (external_id, owner, name, manifest_group_id, schedule_type, created_at, updated_at)
VALUES ('theirs', 'bakery', 'Sell', 2, 'none', NOW, NOW), ('own', 'shop', 'Sell', 1, 'none', NOW, NOW);
INSERT INTO manifest (external_id, owner, name, manifest_group_id, schedule_type, depends_on_manifest_id,
                      created_at, updated_at)
VALUES ('follower', 'shop', 'Sell', 1, 'dependent', 1, NOW, NOW),
       ('child', 'shop', 'Sell', 1, 'dependent', 2, NOW, NOW),
       ('newest', 'shop', 'Sell', 1, 'dependent', 2, NOW, NOW);
DELETE FROM manifest WHERE external_id = 'newest';
INSERT INTO dead_letter (owner, manifest_id, manifest_group_id, train_name, metadata_id, reason,
                         dead_lettered_at)
VALUES ('shop', 2, 1, 'Sell', 7, 'no', NOW)
"""
GONE = 5  #: the id of the newest one


async def test_a_manifest_has_a_parent_and_a_group_of_its_own_owner(world: World) -> None:
    await world.seed(manifest("parent"), manifest("child", schedule=Dependent("parent")))
    await world.seed(manifest("parent"), owner=OTHER)
    (theirs,) = world.rows("SELECT id, manifest_group_id FROM manifest WHERE owner = ?", OTHER)

    for column, value in (
        ("depends_on_manifest_id", theirs["id"]),
        ("manifest_group_id", theirs["manifest_group_id"]),
    ):
        change = f"UPDATE manifest SET {column} = {value} WHERE external_id = 'child'"  # noqa: S608 written here
        with pytest.raises((sqlite3.IntegrityError, psycopg.errors.ForeignKeyViolation)):
            _execute(world.url, change)


async def test_a_run_names_no_parent_of_another_application(world: World) -> None:
    def start(owner: str, parent_id: int | None) -> RunStart:
        return RunStart(
            owner=owner,
            train="Sell",
            input_json="1",
            worker_id="w",
            timeout=timedelta(minutes=1),
            parent_id=parent_id,
        )

    theirs = await world.database.run(start_run(start(OTHER, None)))
    ours = await world.database.run(start_run(start(OWNER, theirs.id)))
    inner = await world.database.run(start_run(start(OWNER, ours.id)))

    parents = {row["id"]: row["parent_id"] for row in world.rows("SELECT id, parent_id FROM metadata")}
    assert parents == {theirs.id: None, ours.id: None, inner.id: ours.id}


async def test_a_database_in_which_owners_were_mixed_is_brought_up_to_date(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_mixed(database_url, monkeypatch)

    migrate(database_url)

    world = await open_world(database_url)
    try:
        follower = world.manifest("follower")
        assert (follower["schedule_type"], bool(follower["is_enabled"])) == ("none", False)
        assert follower["disabled_reason"].startswith("it followed theirs of the application bakery")
        child, own = world.manifest("child"), world.manifest("own")
        assert (child["schedule_type"], child["depends_on_manifest_id"]) == ("dependent", own["id"])
        assert [row["manifest_id"] for row in world.rows("SELECT manifest_id FROM dead_letter")] == [
            own["id"]
        ]
        await world.database.run(add_manifest("shop", manifest("theirs")))
        made = [row["id"] for row in world.rows("SELECT id FROM manifest WHERE external_id = 'theirs'")]
        assert max(made) > GONE, "an id is never given twice"
    finally:
        await world.database.close()


async def test_one_that_lost_its_parent_cannot_be_switched_on_again(world: World) -> None:
    await world.seed(manifest("parent"), manifest("child", schedule=Dependent("parent")))
    lost = "schedule_type = 'none', depends_on_manifest_id = NULL"
    _execute(world.url, f"UPDATE manifest SET {lost} WHERE external_id = 'child'")  # noqa: S608 written here
    _execute(world.url, "DELETE FROM manifest_edge")
    _execute(world.url, "DELETE FROM manifest WHERE external_id = 'parent'")

    with pytest.raises(ParentNotFoundError, match="parent"):
        await world.database.run(override_manifest("child", {"priority": 3}, owner=OWNER))


def _make_mixed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a database as the code before made it, with a manifest that follows another owner's."""
    load = migrations.load_migrations

    def earlier(dialect: Dialect) -> tuple[Migration, ...]:
        return tuple(each for each in load(dialect) if each.version < HOLDS_APART)

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", earlier)
        migrate(url)
    for text in MIXED.split(";\n"):
        _execute(url, text.replace("NOW", "'2026-01-05T12:00:00.000000Z'"))


def _execute(url: str, text: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            file.execute("PRAGMA foreign_keys = on")
            file.execute(text)
            file.commit()
        return
    with psycopg.connect(url, options="-c search_path=gandy") as link:
        link.execute(text.encode())
