"""Whose tables are taken for the state: what their owner defines on them runs as the role that sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from gandy.clock import ManualClock
from gandy.errors import StateObstructedError
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    audit,
    check,
    forget,
    older_than,
    plan,
    quarantine,
    release,
    run_contracts,
    sweep,
)
from gandy.lifecycle.entry import delete_old_rows
from tests.lifecycle.ground import NOW, ago
from tests.lifecycle.paths import STATE_TABLES, execute, on_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.lifecycle.ground import Ground

NOTES = Table("note", [older_than("at", keep_for="7d")], schema="app")
SWEEPS = Contract("sweeps", [NOTES])
BY = SweepOptions(clock=ManualClock(NOW))


def swept(ground: Ground) -> list[str]:
    [report] = run_contracts([SWEEPS], ground.url, options=BY)
    return [failure.error for failure in report.failures]


def tick(ground: Ground) -> None:
    if errors := swept(ground):
        raise StateObstructedError(errors[0])


DOORS: dict[str, Callable[[Ground], object]] = {
    "tick": tick,
    "sweep": lambda ground: sweep([SWEEPS], ground.url, options=BY),
    "train": lambda ground: delete_old_rows(NOTES, ground.url, options=BY),
    "plan": lambda ground: plan([SWEEPS], ground.url),
    "quarantine": lambda ground: quarantine(ground.url),
    "release": lambda ground: release(ground.url),
    "forget": lambda ground: forget(ground.url, "sweeps"),
}
# Each runs evil.seize() as the role that writes to the table.
WAYS = {
    "trigger": "CREATE TRIGGER odd BEFORE INSERT OR UPDATE OR DELETE ON {0} FOR EACH ROW"
    " EXECUTE FUNCTION evil.fire()",
    "default": "ALTER TABLE {0} ADD odd boolean DEFAULT evil.seize()",
    "check": "ALTER TABLE {0} ADD CONSTRAINT odd CHECK (evil.seize())",
    "rule": "CREATE RULE odd AS ON INSERT TO {0} DO ALSO SELECT evil.seize()",
}
SEIZE = """
CREATE FUNCTION evil.seize() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN
    EXECUTE ''ALTER ROLE {evil} SUPERUSER''; RETURN true;
    EXCEPTION WHEN insufficient_privilege THEN RETURN true; END';
CREATE FUNCTION evil.fire() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM evil.seize(); RETURN coalesce(NEW, OLD); END';
"""
IS_SUPERUSER = "SELECT rolsuper FROM pg_roles WHERE rolname = '{evil}'"
ROLES = "SELECT rolname FROM pg_roles WHERE rolname LIKE '%\\_{database}'"


@dataclass(frozen=True)
class Tenants:
    """A database with the schema of a role that has no rights elsewhere, and a plain role that sweeps."""

    owner: Ground
    evil_role: str
    plain_role: str

    @property
    def database(self) -> str:
        return urlsplit(self.owner.url).path[1:]

    @property
    def evil(self) -> Ground:
        return on_path(self.owner, "evil", role=self.evil_role)

    @property
    def plain(self) -> Ground:
        return on_path(self.owner, "plain", role=self.plain_role)

    def look_alike(self, schema: str, owner: str, *, ways: Iterable[str] = (), like: str = "") -> None:
        """The tables of the state, empty and open to all, as another role makes them."""
        if schema != "evil":
            execute(self.owner, f"CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {owner}")
        if not like:
            audit([], on_path(self.owner, schema).url)
        for table in STATE_TABLES:
            name = f"{schema}.gandy_lifecycle_{table}"
            if like:
                execute(
                    self.owner, f"CREATE TABLE {name} (LIKE {like}.gandy_lifecycle_{table} INCLUDING ALL)"
                )
            execute(self.owner, f"ALTER TABLE {name} OWNER TO {owner}", f"TRUNCATE {name}")
            execute(self.owner, *(WAYS[way].format(name) for way in ways), f"GRANT ALL ON {name} TO PUBLIC")
        execute(self.owner, f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC")

    def must_be_untouched(self, schema: str) -> None:
        assert self.owner.rows(IS_SUPERUSER.format(evil=self.evil_role)) == [(False,)]
        for table in STATE_TABLES:
            assert self.owner.rows(f"SELECT * FROM {schema}.gandy_lifecycle_{table}") == []  # noqa: S608


@pytest.fixture
def tenants(postgres: Ground) -> Iterator[Tenants]:
    name = urlsplit(postgres.url).path[1:]
    roles = evil, plain = f"evil_{name}", f"plain_{name}"
    execute(
        postgres,
        "CREATE SCHEMA app",
        "CREATE TABLE app.note (id bigint PRIMARY KEY, at timestamptz, held boolean)",
        "CREATE INDEX by_age ON app.note (at)",
        *(f"CREATE ROLE {role} LOGIN" for role in roles),
        f"CREATE SCHEMA evil AUTHORIZATION {evil}",
        f"CREATE SCHEMA plain AUTHORIZATION {plain}",
        f"GRANT USAGE ON SCHEMA app TO {plain}",
        f"GRANT SELECT, UPDATE, DELETE ON app.note TO {plain}",
    )
    postgres.fill("app.note", [(1, ago(days=9), False)])
    found = Tenants(postgres, evil, plain)
    execute(found.evil, SEIZE.format(evil=evil))
    yield found
    execute(postgres, "DROP SCHEMA IF EXISTS evil, plain, other, gandy_lifecycle_state CASCADE")
    execute(postgres, f"ALTER DATABASE {name} OWNER TO CURRENT_USER")
    for [role] in postgres.rows(ROLES.format(database=name)):
        execute(postgres, f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


@pytest.mark.parametrize("schema", ["evil", "gandy_lifecycle_state"])
def test_a_look_alike_of_another_role_is_refused_by_every_door(tenants: Tenants, schema: str) -> None:
    tenants.look_alike(schema, tenants.evil_role, ways=WAYS)

    for ground in (tenants.owner, tenants.plain):
        [found] = check([SWEEPS], ground.url)
        audit([], ground.url)
        for door in DOORS.values():
            with pytest.raises(StateObstructedError, match=f"schema {schema} .* {tenants.evil_role}"):
                door(ground)
        tenants.must_be_untouched(schema)
        assert f"ALTER DATABASE {tenants.database} SET gandy.lifecycle_state = '{schema}'" in found.remedy
    assert tenants.owner.ids("app.note") == [1]

    execute(tenants.owner, found.remedy.rpartition("run: ")[2])
    assert check([SWEEPS], tenants.owner.url) == []
    assert swept(tenants.owner) == []
    assert tenants.owner.ids("app.note") == []


@pytest.mark.parametrize("schema", ["evil", "gandy_lifecycle_state"])
def test_a_look_alike_beside_the_state_is_ignored(tenants: Tenants, schema: str) -> None:
    assert swept(tenants.owner) == []
    tenants.look_alike(schema, tenants.evil_role, ways=WAYS, like="public")
    tenants.owner.fill("app.note", [(2, ago(days=9), False)])

    assert check([SWEEPS], tenants.owner.url) == []
    assert swept(tenants.owner) == []
    assert tenants.owner.ids("app.note") == []
    tenants.must_be_untouched(schema)


@pytest.mark.parametrize(
    ("kind", "making", "told"),
    [
        ("TABLE", "(LIKE evil.{0} INCLUDING ALL)", "public belong to the role evil"),
        ("VIEW", "AS SELECT * FROM evil.{0}", "is no table of the lifecycle: it is no table"),
    ],
)
def test_one_table_of_another_role_among_the_state_is_refused(
    tenants: Tenants, kind: str, making: str, told: str
) -> None:
    assert swept(tenants.owner) == []
    execute(tenants.owner, f"GRANT CREATE ON SCHEMA public TO {tenants.evil_role}")
    for table, door in zip(cycle(STATE_TABLES), DOORS.values(), strict=False):
        name = f"public.gandy_lifecycle_{table}"
        execute(
            tenants.owner,
            f"CREATE TABLE IF NOT EXISTS evil.{table} (LIKE {name} INCLUDING ALL)",
            f"ALTER TABLE evil.{table} OWNER TO {tenants.evil_role}",
            f"ALTER TABLE {name} RENAME TO aside",
        )
        execute(
            tenants.evil, f"CREATE {kind} {name} {making.format(table)}", f"GRANT ALL ON {name} TO PUBLIC"
        )
        with pytest.raises(StateObstructedError, match=told):
            door(tenants.owner)
        assert swept(tenants.owner) != []
        assert tenants.owner.rows(f"SELECT * FROM {name}") == []  # noqa: S608
        execute(tenants.owner, f"DROP {kind} {name}", f"ALTER TABLE aside RENAME TO gandy_lifecycle_{table}")
    assert swept(tenants.owner) == []


@pytest.mark.parametrize("way", ["trigger", "rule"])
def test_what_fires_on_the_state_is_refused_by_every_door(tenants: Tenants, way: str) -> None:
    assert swept(tenants.owner) == []
    maker = tenants.owner if way == "rule" else tenants.evil  # a rule needs its owner, a trigger a grant
    for table, door in zip(cycle(STATE_TABLES), DOORS.values(), strict=False):
        name = f"public.gandy_lifecycle_{table}"
        execute(tenants.owner, f"GRANT ALL ON {name} TO {tenants.evil_role}")
        execute(maker, WAYS[way].format(name))

        [found] = check([SWEEPS], tenants.owner.url)
        with pytest.raises(StateObstructedError, match=f"{name} would run in every sweep: odd"):
            door(tenants.owner)
        assert f"{name} would run in every sweep: odd" in found.message
        assert tenants.owner.rows(IS_SUPERUSER.format(evil=tenants.evil_role)) == [(False,)]
        execute(tenants.owner, f"DROP {'RULE' if way == 'rule' else 'TRIGGER'} odd ON {name}")
    assert swept(tenants.owner) == []


#: Who owns the state, what makes that so, and whether the superuser and the plain role trust it.
OWNERS = {
    "the plain role": ("{plain}", (), False, True),
    "a superuser": ("CURRENT_USER", (), True, True),
    "the owner of the database": ("{evil}", ("ALTER DATABASE {database} OWNER TO {evil}",), True, True),
    "a stranger": ("{evil}", (), False, False),
    "a group": ("{evil}", ("GRANT {evil} TO {plain}, CURRENT_USER",), False, True),
    "a group of a group": (
        "{evil}",
        (
            "CREATE ROLE more_{database}",
            "GRANT {evil} TO more_{database}",
            "GRANT more_{database} TO {plain}",
        ),
        False,
        True,
    ),
    "a member": ("{evil}", ("GRANT {plain} TO {evil}",), False, False),
    "a group that takes members in by itself": (
        "{evil}",
        (
            "CREATE ROLE more_{database}",
            "GRANT {evil} TO more_{database} WITH ADMIN OPTION",
            "SET ROLE more_{database}",
            "GRANT {evil} TO {plain}",
            "RESET ROLE",
        ),
        False,
        False,
    ),
    "whom the setting names": (
        "{evil}",
        ("ALTER DATABASE {database} SET gandy.lifecycle_state = 'other'",),
        True,
        True,
    ),
}


@pytest.mark.parametrize("owner", OWNERS)
def test_the_owner_of_the_state_must_be_trusted(tenants: Tenants, owner: str) -> None:
    role, steps, *trusted = OWNERS[owner]
    names = {"evil": tenants.evil_role, "plain": tenants.plain_role, "database": tenants.database}
    execute(tenants.owner, *(step.format_map(names) for step in steps))
    tenants.look_alike("other", role.format_map(names))

    for ground, is_trusted in zip((tenants.owner, tenants.plain), trusted, strict=True):
        assert [found.message for found in check([SWEEPS], ground.url)] == swept_words(ground)
        assert (swept(ground) == []) is is_trusted


def swept_words(ground: Ground) -> list[str]:
    """What a sweep says, without what would help."""
    return [error.partition("state: ")[2].partition(". If they")[0] for error in swept(ground)]


def test_the_setting_says_where_the_state_is_made(tenants: Tenants) -> None:
    tenants.look_alike("evil", tenants.evil_role, ways=WAYS)
    execute(
        tenants.owner,
        "CREATE SCHEMA other",
        f"ALTER DATABASE {tenants.database} SET gandy.lifecycle_state = 'other'",
    )
    [found] = check([SWEEPS], tenants.plain.url)
    assert found.remedy == f"Run: GRANT CREATE ON SCHEMA other TO {tenants.plain_role}"
    execute(
        tenants.owner,
        found.remedy.removeprefix("Run: "),
        f"GRANT USAGE ON SCHEMA other TO {tenants.plain_role}",
    )

    for ground in (tenants.plain, tenants.owner):
        assert swept(ground) == []
    assert len(tenants.owner.rows("SELECT * FROM other.gandy_lifecycle_lease")) == 1
    tenants.must_be_untouched("evil")
