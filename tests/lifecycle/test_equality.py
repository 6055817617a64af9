"""A key that the database compares otherwise than a statement stops the rule that would rely on it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from gandy.lifecycle import Contract, Table, cap, check, keep, older_than, terminal
from gandy.lifecycle.selection.findings import Severity
from tests.lifecycle.ground import Ground, ago, ahead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.lifecycle.selection.findings import RuleFinding

WAITING = Table("p", [older_than("at", keep_for="1d", wait_for=["c.pid"])])
MODES = {
    "wait_for": WAITING,
    **{
        mode: Table("p", [older_than("at", keep_for="1d")], children={"c.pid": mode})
        for mode in ("delete_first", "cascade", "set_null")
    },
}
CITEXT = ("CREATE SCHEMA ext", "CREATE EXTENSION citext SCHEMA ext")


def family(ground: Ground, parent: str, child: str, key: str = "REFERENCES p ON DELETE CASCADE") -> None:
    ground.run(
        f"CREATE TABLE p (id {parent} PRIMARY KEY, at {{instant}})",
        f"CREATE TABLE c (id {{key}}, pid {child} {key}, hold {{flag}})",
        "CREATE INDEX p_at ON p (at)",
        "CREATE INDEX c_pid ON c (pid)",
    )


def dead_and_live(ground: Ground, dead: Sequence[object], live: Sequence[object], child: object) -> None:
    ground.fill("p", [*((each, ago(days=2)) for each in dead), *((each, ahead(days=2)) for each in live)])
    ground.fill("c", [(1, child, ground.kind == "postgresql" or 1)])


def refusals(ground: Ground, *tables: Table) -> list[RuleFinding]:
    found = check([Contract("app", tables)], ground.url)
    assert not [each for each in found if each.severity is Severity.WRONG]
    return [each for each in found if each.severity is Severity.REFUSED]


def refused(ground: Ground, *tables: Table) -> str:
    found = refusals(ground, *tables)
    assert len(found) == 1, found
    return str(found[0])


def stays_as_it_is(ground: Ground, table: Table, *more: Table) -> str:
    """Nothing goes, and what is refused is the rule alone; the message."""
    before = ground.rows("SELECT * FROM p ORDER BY 1"), ground.rows("SELECT * FROM c ORDER BY 1")
    ground.run("CREATE TABLE apart (id {key}, at {instant})", "CREATE INDEX apart_at ON apart (at)")
    ground.fill("apart", [(1, ago(days=2))])

    ground.sweep(table, *more, Table("apart", [older_than("at", keep_for="1d")]))

    assert (ground.rows("SELECT * FROM p ORDER BY 1"), ground.rows("SELECT * FROM c ORDER BY 1")) == before
    assert ground.ids("apart") == []
    return refused(ground, table, *more)


@pytest.mark.parametrize("mode", MODES)
def test_an_equality_that_is_not_on_the_search_path_stops_the_rule(postgres: Ground, mode: str) -> None:
    postgres.run(*CITEXT)
    family(postgres, "ext.citext", "ext.citext")
    dead_and_live(postgres, ["A"], ["x"], "a")

    message = stays_as_it_is(postgres, MODES[mode])

    assert "c_pid_fkey" in message or "ext.citext" in message
    assert "SET search_path = public, ext" in message


def test_a_held_child_of_such_a_key_stays(postgres: Ground) -> None:
    postgres.run(*CITEXT)
    family(postgres, "ext.citext", "ext.citext")
    dead_and_live(postgres, ["A"], ["x"], "a")

    stays_as_it_is(postgres, MODES["cascade"], Table("c", [keep("hold", equals=True)]))


def test_on_the_search_path_the_same_key_is_certain(postgres: Ground) -> None:
    postgres.run(*CITEXT)
    family(postgres, "ext.citext", "ext.citext")
    dead_and_live(postgres, ["A", "b"], ["x"], "a")
    name = urlsplit(postgres.url).path.strip("/")
    postgres.run(f'ALTER DATABASE "{name}" SET search_path = public, ext')

    assert refusals(postgres, WAITING) == []
    postgres.sweep(WAITING)
    assert postgres.ids("p") == ["A", "x"]


def test_a_key_below_that_is_in_doubt_stops_the_rule_above(postgres: Ground) -> None:
    postgres.run(
        *CITEXT,
        "CREATE TABLE top (id int PRIMARY KEY, at timestamptz)",
        "CREATE TABLE middle (id int PRIMARY KEY, top_id int REFERENCES top, code ext.citext UNIQUE)",
        "CREATE TABLE below (id int PRIMARY KEY, code ext.citext REFERENCES middle (code))",
    )
    children = {"middle.top_id": "delete_first", "below.code": "delete_first"}

    message = refused(postgres, Table("top", [older_than("at", keep_for="1d")], children=children))

    assert "below_code_fkey" in message
    nulled = Table("top", [older_than("at", keep_for="1d")], children={"middle.top_id": "set_null"})
    assert refusals(postgres, nulled) == []


COMPARED_BY_VALUE = {
    "per": Table("thing", [cap(1, per=["word"], order_by="at")]),
    "terminal": Table("thing", [terminal("word", states=["done"], at="at", keep_for="1d")]),
    "keep": Table("thing", [keep("word", equals="kept"), older_than("at", keep_for="1d")]),
}


@pytest.mark.parametrize("field", COMPARED_BY_VALUE)
def test_values_of_such_a_type_stop_the_rule_that_compares_them(postgres: Ground, field: str) -> None:
    postgres.run(
        *CITEXT,
        "CREATE TABLE thing (id int PRIMARY KEY, word ext.citext, at timestamptz)",
        f"INSERT INTO thing SELECT n, 'Kept', '{ago(days=2)}' FROM generate_series(1, 3) AS n",  # noqa: S608
    )

    findings = refusals(postgres, COMPARED_BY_VALUE[field])
    postgres.sweep(COMPARED_BY_VALUE[field])

    assert {each.field for each in findings} == {field}
    assert postgres.ids("thing") == [1, 2, 3]


SURE = {
    "of_cross": ("int", "bigint"),
    "of_cross_back": ("bigint", "smallint"),
    "of_number": ("numeric", "int"),
    "of_varying": ("text", "varchar(20)"),
    "of_varying_back": ("varchar(20)", "text"),
    "of_blank": ("char(5)", "char(8)"),
    "of_chosen": ("mood", "mood"),
    "of_unique": ("uuid", "uuid"),
    "of_named": ("deeper", "int"),
    "of_worded": ("word", "varchar(9)"),
    "of_many": ("int[]", "int[]"),
    "of_span": ("int4range", "int4range"),
    "of_spans": ("int4multirange", "int4multirange"),
    "of_day": ("date", "timestamp"),
    "of_real": ("float8", "float4"),
    "of_bytes": ("bytea", "bytea"),
    "of_address": ("inet", "inet"),
    "of_network": ("cidr", "cidr"),
    "of_folded": ('text COLLATE "C"', 'varchar COLLATE "C"'),
    "of_moods": ("mood[]", "mood[]"),
}
MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE DOMAIN deep AS int CHECK (value > 0)",
    "CREATE DOMAIN deeper AS deep",
    "CREATE DOMAIN word AS text",
    *CITEXT,
)


def test_keys_that_are_compared_as_statements_do_are_allowed(postgres: Ground) -> None:
    postgres.run(*MADE)
    for name, (parent, child) in SURE.items():
        postgres.run(
            f"CREATE TABLE {name} (id {parent} PRIMARY KEY, at timestamptz)",
            f"CREATE TABLE {name}_c (id int PRIMARY KEY, pid {child} REFERENCES {name})",
            f"CREATE TABLE {name}_free (id int PRIMARY KEY, pid {parent})",
        )
    waits = {name: [f"{name}_c.pid", f"{name}_free.pid"] for name in SURE}
    tables = [Table(name, [older_than("at", keep_for="1d", wait_for=waits[name])]) for name in SURE]

    assert refusals(postgres, *tables) == []
    assert not postgres.sweep(*tables).failures


def test_keys_of_more_columns_and_of_partitions_are_allowed(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE p (a int, b text, at timestamptz, PRIMARY KEY (a, b)) PARTITION BY LIST (a)",
        "CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1)",
        "CREATE TABLE c (id int PRIMARY KEY, a bigint, b varchar, FOREIGN KEY (a, b) REFERENCES p)",
    )

    assert refusals(postgres, Table("p", [older_than("at", keep_for="1d", wait_for=["c.a,b"])])) == []
    part = Table("p_1", [older_than("at", keep_for="1d")], children={"c.a,b": "delete_first"})
    assert refusals(postgres, part) == []


UNSURE = [
    ("text", "char(5)", "types are character and text"),
    ("text", "ext.citext", "types are ext.citext and text"),
    ("text", 'text COLLATE "C"', 'collations are "C" and "default"'),
    ('text COLLATE "C"', "text", 'collations are "default" and "C"'),
    ('text COLLATE "C"', 'text COLLATE "POSIX"', 'collations are "POSIX" and "C"'),
]


@pytest.mark.parametrize(("parent", "child", "reason"), UNSURE)
def test_columns_that_are_unlike_stop_the_rule_with_a_key_or_without(
    postgres: Ground, parent: str, child: str, reason: str
) -> None:
    postgres.run(*MADE)
    family(postgres, parent, child)
    dead_and_live(postgres, ["A"], ["a"], "a")

    assert reason in stays_as_it_is(postgres, MODES["delete_first"])

    postgres.run("ALTER TABLE c DROP CONSTRAINT c_pid_fkey")
    assert "c.pid" in refused(postgres, WAITING)
    assert "c.pid" in refused(postgres, MODES["delete_first"])


def test_an_operator_that_is_nearer_than_the_key_s_stops_the_rule(postgres: Ground) -> None:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE FUNCTION alike(mood, mood) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE OPERATOR = (FUNCTION = alike, LEFTARG = mood, RIGHTARG = mood)",
    )
    family(postgres, "mood", "mood")
    dead_and_live(postgres, ["sad"], ["glad"], "glad")

    stays_as_it_is(postgres, MODES["delete_first"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("parent", "child", "dead", "live", "value"),
    [
        ("TEXT COLLATE NOCASE", "TEXT", ["A"], [], "a"),
        ("TEXT COLLATE RTRIM", "TEXT", ["A  "], [], "A"),
        ("TEXT", "TEXT COLLATE NOCASE", ["A"], ["a"], "a"),
        ("TEXT", "INTEGER", ["01", "1.0"], ["1"], 1),
        ("INTEGER NOT NULL", "TEXT", [1], [2], "1"),
        ("", "INTEGER", ["1"], [1], 1),
        ("TEXT", "", ["1"], ["2"], 1),
    ],
)
def test_sqlite_columns_that_are_unlike_stop_the_rule(
    sqlite: Ground, mode: str, parent: str, child: str, dead: list[object], live: list[object], value: object
) -> None:
    family(sqlite, parent, child)
    dead_and_live(sqlite, dead, live, value)

    message = stays_as_it_is(sqlite, MODES[mode])

    assert "c.pid" in message
    assert "p.id" in message


def test_sqlite_columns_that_are_unlike_stop_a_rule_without_a_key(sqlite: Ground) -> None:
    family(sqlite, "TEXT COLLATE NOCASE", "TEXT", key="")
    dead_and_live(sqlite, ["A"], [], "a")

    assert "collations are BINARY and NOCASE" in stays_as_it_is(sqlite, WAITING)


@pytest.mark.parametrize(
    ("parent", "child"),
    [
        ("TEXT COLLATE NOCASE", "VARCHAR(9) COLLATE nocase"),
        ("INTEGER", "NUMERIC"),
        ("REAL", "BIGINT"),
        ("INTEGER", ""),
        ("", ""),
        ("TEXT", "CLOB DEFAULT 'collate'"),
    ],
)
def test_sqlite_columns_that_are_alike_are_allowed(sqlite: Ground, parent: str, child: str) -> None:
    family(sqlite, parent, child)
    dead_and_live(sqlite, [1, 2], [3], 1)

    assert refusals(sqlite, WAITING) == []
    sqlite.sweep(WAITING)
    assert [int(each) for each in sqlite.ids("p")] == [1, 3]


def test_a_collation_that_only_the_application_has_stops_the_rule(sqlite: Ground) -> None:
    with sqlite.connect() as connection:
        connection.create_collation("house", lambda one, other: (one > other) - (one < other))
        connection.execute("CREATE TABLE p (id TEXT COLLATE house PRIMARY KEY, at TEXT)")
        connection.execute("CREATE TABLE c (id INTEGER PRIMARY KEY, pid TEXT COLLATE house REFERENCES p)")

    assert "c.pid" in refused(sqlite, WAITING)
