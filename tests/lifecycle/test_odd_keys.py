"""Kinds of keys and columns that the database has and a sweep cannot treat like others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, check, expires, older_than, plan
from gandy.lifecycle.selection.findings import Severity
from tests.lifecycle.ground import NOW, Ground, ago, ahead, ms

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule


def messages(ground: Ground, *tables: Table) -> list[str]:
    found = check([Contract("app", tables)], ground.url)
    assert not [each for each in found if each.severity is Severity.WRONG]
    return [str(each) for each in found if each.severity is Severity.REFUSED]


def refused(ground: Ground, table: Table) -> str:
    found = messages(ground, table)
    assert len(found) == 1, found
    return found[0]


def needs(ground: Ground, version: int) -> None:
    """An older server is skipped on a laptop, and fails in continuous integration."""
    [(number,)] = ground.rows("SELECT current_setting('server_version_num')::int / 10000")
    if number < version:
        missing = f"needs PostgreSQL {version}; this server is {number}"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)


def notes(ground: Ground, table: Table) -> str:
    [planned] = plan([Contract("app", [table])], ground.url, clock=ManualClock(NOW))
    return " ".join(planned.notes)


@pytest.mark.parametrize("mode", ["wait_for", "delete_first", "cascade"])
def test_a_period_key_stops_the_rule(postgres: Ground, mode: str) -> None:
    needs(postgres, 18)
    postgres.run(
        "CREATE EXTENSION btree_gist",
        "CREATE TABLE p (id int, v tstzrange, at timestamptz, PRIMARY KEY (id, v WITHOUT OVERLAPS))",
        "CREATE TABLE c (id int PRIMARY KEY, pid int, v tstzrange,"
        " FOREIGN KEY (pid, PERIOD v) REFERENCES p (id, PERIOD v))",
    )
    rule = older_than("at", keep_for="1d", wait_for=["c.pid,v"] if mode == "wait_for" else [])
    table = Table("p", [rule], children={} if mode == "wait_for" else {"c.pid,v": mode})

    message = refused(postgres, table)

    assert "PERIOD" in message
    assert "c_pid_v_fkey" in message


NOT_ENFORCED = (
    "CREATE TABLE p (id int PRIMARY KEY, code int UNIQUE, at timestamptz)",
    "CREATE INDEX p_at ON p (at)",
    "CREATE TABLE c (id int PRIMARY KEY, code int)",
    "CREATE INDEX c_code ON c (code)",
    "ALTER TABLE c ADD FOREIGN KEY (code) REFERENCES p (code) ON DELETE CASCADE NOT ENFORCED",
)
AGED: Rule = older_than("at", keep_for="1d")


def test_nothing_cascades_through_a_key_that_is_not_enforced(postgres: Ground) -> None:
    needs(postgres, 18)
    postgres.run(*NOT_ENFORCED)

    cascading = refused(postgres, Table("p", [AGED], children={"c.code": "cascade"}))
    uncovered = refused(postgres, Table("p", [AGED]))

    assert "nothing would cascade" in cascading
    assert "NOT ENFORCED" in uncovered


def test_what_waits_by_a_key_that_is_not_enforced_is_as_weak_as_without(postgres: Ground) -> None:
    needs(postgres, 18)
    postgres.run(*NOT_ENFORCED)
    postgres.fill("p", [(1, 10, ago(days=2)), (2, 20, ago(days=2))])
    postgres.fill("c", [(1, 10), (2, 99)])
    table = Table("p", [older_than("at", keep_for="1d", wait_for=["c.code"])])

    assert "locks" in notes(postgres, table)
    postgres.sweep(table)

    assert postgres.ids("p") == [1]


@pytest.mark.parametrize("mode", ["delete_first", "set_null"])
def test_other_modes_treat_the_rows_of_such_a_key(postgres: Ground, mode: str) -> None:
    needs(postgres, 18)
    postgres.run(*NOT_ENFORCED)
    postgres.fill("p", [(1, 10, ago(days=2)), (2, 20, ahead(days=2))])
    postgres.fill("c", [(1, 10), (2, 20)])

    postgres.sweep(Table("p", [AGED], children={"c.code": mode}))

    assert postgres.ids("p") == [2]
    assert postgres.rows("SELECT id, code FROM c ORDER BY id")[-1] == (2, 20)
    assert (1, 10) not in postgres.rows("SELECT id, code FROM c")


def test_a_row_waits_for_every_key_of_the_column_that_it_waits_for(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE p (id {key}, code bigint UNIQUE, at {instant})",
        "CREATE INDEX p_at ON p (at)",
        "CREATE TABLE c (id {key}, pid bigint, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE,"
        " FOREIGN KEY (pid) REFERENCES p (code) ON DELETE CASCADE)",
        "CREATE INDEX c_pid ON c (pid)",
    )
    ground.fill("p", [(1, 2, ago(days=2)), (2, 1, ago(days=2)), (3, 3, ago(days=2))])
    ground.fill("c", [(1, 1)])

    ground.sweep(Table("p", [older_than("at", keep_for="1d", wait_for=["c.pid"])]))

    assert ground.ids("p") == [1, 2]
    assert ground.ids("c") == [1]


@pytest.mark.parametrize("declared", ["pair", "pair_again"])
def test_a_key_of_a_composite_type_is_refused_at_the_check(postgres: Ground, declared: str) -> None:
    postgres.run(
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN pair_again AS pair",
        f"CREATE TABLE p (id {declared} PRIMARY KEY, at timestamptz)",
    )

    message = refused(postgres, Table("p", [AGED]))

    assert "p.id is of a composite type" in message


def test_a_generated_column_cannot_be_set_to_null(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE p (id {key}, at {instant})",
        "CREATE TABLE c (id {key}, b bigint, pid bigint GENERATED ALWAYS AS (b * 2) STORED REFERENCES p)",
    )

    message = refused(ground, Table("p", [AGED], children={"c.pid": "set_null"}))

    assert "pid is a generated column" in message


DOMAINS = [
    ("timestamptz", ago(days=2), ahead(days=2)),
    ("timestamp(0)", ago(days=2).replace(tzinfo=None), ahead(days=2).replace(tzinfo=None)),
    ("date", ago(days=2).date(), ahead(days=2).date()),
    ("bigint", ms(ago(days=2)), ms(ahead(days=2))),
    ("numeric(20)", ms(ago(days=2)), ms(ahead(days=2))),
]


@pytest.mark.parametrize(("base", "dead", "live"), DOMAINS)
def test_a_domain_at_any_depth_holds_the_instants_of_its_base(
    postgres: Ground, base: str, dead: object, live: object
) -> None:
    postgres.run(
        f"CREATE DOMAIN moment AS {base}",
        "CREATE DOMAIN later AS moment",
        "CREATE TABLE p (id bigint PRIMARY KEY, at later)",
        "CREATE INDEX p_at ON p (at)",
    )
    postgres.fill("p", [(1, dead), (2, live), (3, None)])

    assert messages(postgres, Table("p", [expires("at")])) == []
    postgres.sweep(Table("p", [expires("at")]), by=SweepOptions())

    assert postgres.ids("p") == [2, 3]


def test_a_domain_that_is_never_null_is_found_at_any_depth(postgres: Ground) -> None:
    postgres.run(
        "CREATE DOMAIN filled AS int NOT NULL",
        "CREATE DOMAIN still_filled AS filled",
        "CREATE TABLE p (id int PRIMARY KEY, at timestamptz)",
        "CREATE TABLE c (id int PRIMARY KEY, pid still_filled REFERENCES p)",
    )

    message = refused(postgres, Table("p", [AGED], children={"c.pid": "set_null"}))

    assert "NOT NULL" in message
