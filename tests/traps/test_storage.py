"""What bit other schemas: locks, instants, references and counts that are fine until there is much."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from gandy.store.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.store.statements import Dialect
    from tests.support.world import World

# Grow with what is stored.
GROWING = r"(?:gandy\.)?(?:manifest|work_queue|metadata|history|history_rowwise|log|dead_letter|audit)\b"
COUNTED_WHOLE = re.compile(rf"count\(\*\)(?: AS \w+)?\s+FROM\s+{GROWING}(?P<rest>[^;)]*)", re.IGNORECASE)
CHOSEN_IN_PLACE = re.compile(r"\bIN\s*\(\s*SELECT\b[^()]*(?:\([^()]*\)[^()]*)*\bLIMIT\b", re.IGNORECASE)
# Live runs, by their own index: bounded by the slots of all workers.
COUNTED_BY_INDEX = {"count_active", "count_active_by_group"}
# A day is counted once, just before it is dropped; the demo counts its own few runs.
COUNTED_ONCE = {"count_logs_on", "count_runs_on", "summarise_runs"}
LOCKS = {
    "try_lock": {"name": "gandy_manifest_manager"},
    "lock_migrations": {},
    "try_lock_history": {},
    "lock_global_cap": {"owner": "shop"},
    "lock_seeding": {"owner": "shop"},
}
HOT_TABLES = {"work_queue", "manifest"}


@pytest.fixture
def fresh_postgres(postgres_url: str) -> str:
    """A PostgreSQL database with Gandy's tables."""
    migrate(postgres_url)
    return postgres_url


def lock_statements() -> Mapping[str, str]:
    return {name: text for name, text in load_statements("postgres").items() if "advisory" in text}


def test_every_advisory_lock_has_a_key_of_its_own(fresh_postgres: str) -> None:
    with psycopg.connect(fresh_postgres, autocommit=False) as link:
        for name, text in lock_statements().items():
            link.execute(text.encode(), LOCKS[name])
        held = link.execute(
            "SELECT classid, objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ).fetchall()
        (cycle,) = link.execute("SELECT hashtext('gandy_manifest_manager')::bigint & 4294967295").fetchall()

    assert lock_statements().keys() == LOCKS.keys()
    assert len(set(held)) == len(LOCKS)
    assert cycle[0] in {key for _, key in held}, "and the name is hashed, not quoted away"


def test_no_instant_is_stored_without_its_zone(fresh_postgres: str) -> None:
    with psycopg.connect(fresh_postgres) as link:
        columns = link.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'gandy' AND data_type LIKE '%time%'"
        ).fetchall()

    assert len(columns) > 30
    assert {kind for _, _, kind in columns} == {"timestamp with time zone"}


@pytest.mark.parametrize(
    "wrong", ["2026-01-05 12:00:00", "2026-01-05T12:00:00+01:00", "2026-01-05T12:00:00.000Z", "soon"]
)
def test_an_instant_in_another_form_is_refused_where_instants_are_text(sqlite_url: str, wrong: str) -> None:
    migrate(sqlite_url)
    insert = "INSERT INTO manifest_group (owner, name, created_at, updated_at) VALUES ('shop', ?, ?, ?)"
    right = "2026-01-05T12:00:00.000000Z"
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as link:
        link.execute(insert, ("etl", right, right))
        with pytest.raises(sqlite3.IntegrityError):
            link.execute(insert, ("web", wrong, right))


async def test_every_reference_has_an_index_on_the_side_of_the_child(world: World) -> None:
    found = _sqlite_references(world) if world.url.startswith("sqlite") else _postgres_references(world)

    assert len(found) >= 3
    assert [reference for reference, is_served in found.items() if not is_served] == []


def _postgres_references(world: World) -> dict[str, bool]:
    # an index that leaves out the rows without a reference serves too
    rows = world.rows(
        "SELECT conrelid::regclass::text || '.' || conname AS reference, EXISTS ("
        "  SELECT FROM pg_index i"
        "  WHERE i.indrelid = c.conrelid AND i.indisvalid AND i.indkey[0] = c.conkey[1]"
        "  AND (i.indpred IS NULL"
        "       OR pg_get_expr(i.indpred, i.indrelid) ~ '^\\(\\w+ IS NOT NULL\\)$')) AS is_served "
        "FROM pg_constraint c WHERE contype = 'f' AND connamespace = 'gandy'::regnamespace"
    )
    return {row["reference"]: row["is_served"] for row in rows}


def _sqlite_references(world: World) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for table in [row["name"] for row in world.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]:
        for key in world.rows(f"PRAGMA foreign_key_list({table})"):
            column = key["from"]
            plan = world.rows(f"EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE {column} = 1")  # noqa: S608
            found[f"{table}.{column}"] = all("USING" in str(row["detail"]) for row in plan)
    return found


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_no_statement_counts_all_of_what_grows(dialect: Dialect) -> None:
    assert counts_all("SELECT count(*) FROM gandy.metadata WHERE owner = 'shop'")

    found = {name for name, text in load_statements(dialect).items() if counts_all(text)}

    assert found - COUNTED_BY_INDEX - COUNTED_ONCE == set()


def counts_all(text: str) -> bool:
    """Whether something that grows is counted; what is not over yet is bounded by what runs."""
    return any("'in_progress'" not in match["rest"] for match in COUNTED_WHOLE.finditer(text))


def test_rows_to_change_are_chosen_once_and_not_again_for_every_row() -> None:
    assert CHOSEN_IN_PLACE.search("DELETE FROM t WHERE id IN (SELECT id FROM t LIMIT 10 FOR UPDATE)")

    found = [name for name, text in load_statements("postgres").items() if CHOSEN_IN_PLACE.search(text)]

    assert found == []


def test_hot_tables_are_vacuumed_long_before_a_fifth_of_them_is_dead(fresh_postgres: str) -> None:
    with psycopg.connect(fresh_postgres) as link:
        rows = link.execute(
            "SELECT c.relname, o.option_value::float8 FROM pg_class c, pg_options_to_table(c.reloptions) o "
            "WHERE c.relnamespace = 'gandy'::regnamespace "
            "AND o.option_name = 'autovacuum_vacuum_scale_factor'"
        ).fetchall()
    shares: dict[str, float] = dict(rows)

    assert shares.keys() >= HOT_TABLES
    assert max(shares.values()) <= 0.05
