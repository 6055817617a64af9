"""Random databases: tables with every kind of key, and references with every action."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.lifecycle.fuzz.shapes import MARK, Column, Limit, Link, Shape, TableShape

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

ACTIONS = ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT")
INSTANTS = {
    "postgresql": ("timestamptz", "timestamptz", "timestamp", "date", "s", "ms", "us", "ns", "yyyymmdd"),
    "sqlite": ("iso", "iso", "s", "ms", "us", "ns", "yyyymmdd"),
}
KEYS = (("int",), ("bigint",), ("text",), ("uuid",), ("int", "text"), ("bigint", "uuid"), ())
HOLDS = {"postgresql": ("bool", "bool", "flag_int", "flag_text"), "sqlite": ("bool", "flag_int", "flag_text")}
STRANGE = ("t {n}", "T{n}", 'odd "{n}"', "select{n}")


def make_shape(chance: random.Random, database: str) -> Shape:
    """Two to six tables and the references between them."""
    schemas: Sequence[str | None] = [None]
    if database == "postgresql":
        schemas = ["public", "side", "other space"][: chance.choice((1, 2, 2, 3))]
    tables = [_table(chance, number, database, schemas) for number in range(chance.randint(2, 6))]
    links: list[Link] = []
    for number in range(len(tables) + chance.randint(0, 2)):
        _refer(chance, tables, links, column=f"r{number}", database=database)
    return Shape(database, tuple(tables), tuple(links), _limit(chance, tables, database))


def _limit(chance: random.Random, tables: list[TableShape], database: str) -> Limit | None:
    """At times, a table that the sweeping role cannot see or change."""
    if database == "sqlite" or chance.random() < 0.85:
        return None
    table = chance.choice(tables)
    what = chance.choice(("select", "delete", "rows", "rows", "usage"))
    return Limit(table.label, "select" if what == "usage" and table.schema == "public" else what)


def _table(chance: random.Random, number: int, database: str, schemas: Sequence[str | None]) -> TableShape:
    name = f"t{number}" if chance.random() < 0.9 else chance.choice(STRANGE).format(n=number)
    schema = chance.choice(schemas)
    if schema not in {None, "public"} and chance.random() < 0.3:
        name = "t0"  # the same name as in another schema
        schema = f"{schema} {number}" if number else schema
    kinds = chance.choice(KEYS)
    is_rowid = bool(chance.random() < 0.8 or not kinds)
    may_be_null = database == "sqlite" and is_rowid and kinds == ("text",)
    key = [Column(f"k{place}", kind, is_nullable=may_be_null) for place, kind in enumerate(kinds)]
    unique = [Column("code", chance.choice(("int", "text")))] if chance.random() < 0.4 or not kinds else []
    return TableShape(
        schema=schema,
        name=name,
        columns=(Column(MARK, "bigint", is_nullable=False), *key, *unique, *_others(chance, database)),
        key=tuple(column.name for column in key),
        unique=tuple(column.name for column in unique),
        has_rowid=is_rowid,
        trigger=f"watch_{number}" if chance.random() < 0.04 else None,
        is_partitioned=database == "postgresql" and bool(key) and not unique and chance.random() < 0.15,
    )


def _others(chance: random.Random, database: str) -> list[Column]:
    """Instants, a state, a group and perhaps a hold."""
    kind = chance.choice(INSTANTS[database])
    found = [Column("at1", kind), Column("at2", chance.choice(INSTANTS[database]))]
    if chance.random() < 0.5:  # a log and its cursors write instants alike
        found[1] = Column("at2", INSTANTS[database][0])
    found += [Column("state", "state"), Column("grp", "small"), Column("seq", "small")]
    if chance.random() < 0.6:
        found.append(Column("hold", chance.choice(HOLDS[database])))
    return found


def _refer(
    chance: random.Random, tables: list[TableShape], links: list[Link], *, column: str, database: str
) -> None:
    """Give one table columns that refer to another one, or to itself."""
    child, parent = chance.randrange(len(tables)), chance.randrange(len(tables))
    if chance.random() < 0.85 and child <= parent:  # most references form no circle
        child, parent = max(child, parent), min(child, parent)
        if child == parent:
            return
    wanted = _target(chance, tables[parent])
    if wanted is None:
        return
    is_nullable = chance.random() < 0.7 or child <= parent
    new = [
        Column(f"{column}{place}", tables[parent].column(name).kind, is_nullable=is_nullable)
        for place, name in enumerate(wanted)
    ]
    link = Link(
        child=tables[child].label,
        columns=tuple(one.name for one in new),
        parent=tables[parent].label,
        parent_columns=wanted,
        has_key=chance.random() < 0.85 or wanted != tables[parent].key,
    )
    if link.has_key:
        link, new = _with_action(chance, link, new, database=database)
    links.append(link)
    tables[child] = replace(tables[child], columns=(*tables[child].columns, *new))


def _target(chance: random.Random, parent: TableShape) -> tuple[str, ...] | None:
    """The columns that are referred to: the key, or another unique column."""
    choices = [columns for columns in (parent.key, parent.key, parent.unique) if columns]
    return chance.choice(choices) if choices else None


def _with_action(
    chance: random.Random, link: Link, new: list[Column], *, database: str
) -> tuple[Link, list[Column]]:
    action = chance.choice(ACTIONS)
    is_deferred = action != "RESTRICT" and chance.random() < 0.2
    link = replace(link, action=action, is_deferred=is_deferred)
    if action == "SET NULL" and database == "postgresql" and len(new) > 1 and chance.random() < 0.6:
        link = replace(link, set_columns=(chance.choice(new).name,))
        new = [replace(one, is_nullable=one.is_nullable or one.name in link.set_columns) for one in new]
        if chance.random() < 0.5:
            new = [replace(one, is_nullable=one.name in link.set_columns) for one in new]
    if action == "SET DEFAULT" and len(new) == 1 and chance.random() < 0.5:
        new = [replace(new[0], default={"text": "'k1'", "int": "1", "bigint": "1"}.get(new[0].kind))]
    return link, new
