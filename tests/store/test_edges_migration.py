"""A database of the version before keeps its dependents, and what they had followed and had not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gandy.errors import CodeTooOldError
from gandy.model.schedule import Dependent, DormantDependent, Manual
from gandy.store.drivers import migrate as migrations
from gandy.store.drivers.opening import migrate
from gandy.store.queueing import trigger
from tests.store.test_live_runs_migration import execute
from tests.support.world import OWNER, manifest, open_world

if TYPE_CHECKING:
    from gandy.model.manifest import ManifestDeclaration
    from gandy.store.drivers.migrate import Migration
    from gandy.store.statements import Dialect

EDGES = next(
    each.version for each in migrations.load_migrations("sqlite") if each.name.endswith("_dependencies")
)
#: A parent that succeeded three times; a dependent that followed all of it, one that has one more to follow,
#: and a dormant one. One parent ended, and its mark is not turned into looks yet.
ROWS = """
INSERT INTO manifest_group (owner, name, created_at, updated_at) VALUES ('shop', 'default', @now, @now);
INSERT INTO manifest (external_id, owner, name, manifest_group_id, schedule_type, success_count,
                      last_successful_run_id, has_dependents_due, created_at, updated_at)
SELECT 'parent', 'shop', 'Parent', id, 'none', 3, 7, true, @now, @now FROM manifest_group;
INSERT INTO manifest (external_id, owner, name, manifest_group_id, schedule_type, depends_on_manifest_id,
                      parent_success_seen, created_at, updated_at)
SELECT names.name, 'shop', 'Child', p.manifest_group_id, names.kind, p.id, names.seen, @now, @now
FROM manifest p CROSS JOIN (
    SELECT 'followed' AS name, 'dependent' AS kind, 3 AS seen UNION ALL
    SELECT 'behind', 'dependent', 2 UNION ALL SELECT 'dormant', 'dormant_dependent', 0) names
"""
#: As the code before wrote it.
DECLARED = '{"train": "%s", "input_type": "Month", "schedule": {%s}, "batch": null}'


@pytest.fixture
def old_url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of the version before, with dependents."""
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", _earlier(migrations.load_migrations))
        migrate(database_url)
    for part in ROWS.replace("@now", "'2026-01-05T12:00:00.000000Z'").split(";\n"):
        execute(database_url, part)
    for kind in ("none", "dependent", "dormant_dependent"):
        parent = "" if kind == "none" else ', "parent": "parent"'
        declared = DECLARED % ("Child" if parent else "Parent", f'"type": "{kind}"{parent}')
        change = f"UPDATE manifest SET declared = '{declared}' WHERE schedule_type = '{kind}'"  # noqa: S608 written here
        execute(database_url, change)
    return database_url


def _earlier(load: Any) -> Any:  # noqa: ANN401 a cached function
    def earlier(dialect: Dialect) -> tuple[Migration, ...]:
        return tuple(each for each in load(dialect) if each.version < EDGES)

    return earlier


@pytest.mark.pair("layout migration", "success dormant")
async def test_dependents_follow_what_they_had_not_followed_and_nothing_twice(old_url: str) -> None:
    migrate(old_url)
    world = await open_world(old_url)

    await world.cycle()
    assert {name: len(world.entries(name)) for name in ("followed", "behind", "dormant")} == {
        "followed": 0,
        "behind": 1,
        "dormant": 0,
    }
    await world.finish(*await world.claim("Child"))
    assert (await world.cycle()).queued == 0

    await world.database.run(trigger("parent", owner=OWNER))
    await world.finish(*await world.claim("Parent"))
    await world.cycle()
    assert {name: len(world.entries(name)) for name in ("followed", "behind", "dormant")} == {
        "followed": 1,
        "behind": 2,
        "dormant": 0,
    }
    await world.database.close()


async def test_declaring_them_again_keeps_what_was_seen(old_url: str) -> None:
    migrate(old_url)
    world = await open_world(old_url)

    await world.seed(*_declared())

    edges = world.rows(
        "SELECT c.external_id AS child, e.kind, e.seen FROM manifest_edge e "
        "JOIN manifest c ON c.id = e.child_id ORDER BY c.id"
    )
    assert [tuple(row.values()) for row in edges] == [
        ("followed", "success", 3),
        ("behind", "success", 2),
        ("dormant", "activation", 0),
    ]
    await world.cycle()
    assert len(world.entries("behind")) == 1
    assert world.entries("followed") == []
    await world.database.close()


def _declared() -> list[ManifestDeclaration]:
    return [
        manifest("parent", schedule=Manual(), train="Parent"),
        manifest("followed", schedule=Dependent("parent"), train="Child"),
        manifest("behind", schedule=Dependent("parent"), train="Child"),
        manifest("dormant", schedule=DormantDependent("parent"), train="Child"),
    ]


def test_code_of_the_version_before_is_refused_afterwards(
    old_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(old_url)
    monkeypatch.setattr(migrations, "load_migrations", _earlier(migrations.load_migrations))

    with pytest.raises(CodeTooOldError):
        migrate(old_url)


def test_a_role_that_ran_services_can_run_them_afterwards(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", _earlier(migrations.load_migrations))
        migrate(postgres_url)
    role = "gandy_writer_of_edges"
    try:
        execute(postgres_url, f"CREATE ROLE {role}")
        execute(postgres_url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON gandy.manifest TO {role}")

        migrate(postgres_url)

        held = "SELECT has_table_privilege('{}', 'gandy.{}', '{}')"
        wanted = [(table, "SELECT") for table in ("manifest_dispatch", "manifest_dependency")]
        wanted += [
            (table, verb)
            for table in ("manifest_edge", "manifest_output")
            for verb in ("SELECT", "INSERT", "UPDATE", "DELETE")
        ]
        assert [each for each in wanted if execute(postgres_url, held.format(role, *each)) != [(True,)]] == []
    finally:
        execute(postgres_url, f"DROP OWNED BY {role}")
        execute(postgres_url, f"DROP ROLE {role}")
