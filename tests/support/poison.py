"""Rows that a database refuses: a trigger of somebody's own, with an error of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.world import World

_FUNCTION = """
CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'poisoned' USING ERRCODE = 'ZZ001'; END $$
"""


def poison(world: World, table: str, when: str, *, event: str = "INSERT") -> None:
    """Let the database refuse the rows of a table for which a condition on NEW or OLD holds."""
    name = f"poison_{table}"
    if world.url.startswith("sqlite"):
        world.rows(
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} WHEN {when} "
            "BEGIN SELECT RAISE(ABORT, 'poisoned'); END"
        )
        return
    world.rows("DROP FUNCTION IF EXISTS poison CASCADE")
    world.rows(_FUNCTION)
    world.rows(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN ({when}) "
        "EXECUTE FUNCTION poison()"
    )


def heal(world: World, table: str) -> None:
    """Let the table take everything again."""
    on = "" if world.url.startswith("sqlite") else f" ON {table}"
    world.rows(f"DROP TRIGGER poison_{table}{on}")
