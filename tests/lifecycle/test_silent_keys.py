"""Keys and triggers that do not fire, rows of another server, changes that no subscriber can be told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.lifecycle import Contract, Table, check, drop_partition, older_than
from gandy.lifecycle.selection.findings import Severity
from tests.lifecycle.ground import Ground, ago, ahead

if TYPE_CHECKING:
    from collections.abc import Iterable

AGED = older_than("at", keep_for="1d")
CASCADE = Table("p", [AGED], children={"c.pid": "cascade"})


def refused(ground: Ground, *tables: Table) -> str:
    """What stops every rule of these tables."""
    found = check([Contract("app", tables)], ground.url)
    messages = [str(each) for each in found if each.severity is Severity.REFUSED]
    assert len({each.table for each in found if each.severity is Severity.REFUSED}) == len(tables), found
    return " ".join(messages)


def judged(ground: Ground, tables: Iterable[Table]) -> list[str]:
    found = check([Contract("app", list(tables))], ground.url)
    return [str(each) for each in found if each.severity is not Severity.INFORMATION]


@pytest.fixture
def family(postgres: Ground) -> Ground:
    postgres.run(
        "CREATE TABLE p (id int PRIMARY KEY, at timestamptz)",
        "CREATE INDEX p_at ON p (at)",
        "CREATE TABLE c (id int PRIMARY KEY, pid int REFERENCES p (id) ON DELETE CASCADE)",
        "CREATE INDEX c_pid ON c (pid)",
    )
    postgres.fill("p", [(1, ago(days=2)), (2, ahead(days=9_000))])
    postgres.fill("c", [(1, 1), (2, 2)])
    return postgres


@pytest.mark.parametrize("table", ["p", "c"])
@pytest.mark.parametrize("how", ["DISABLE TRIGGER ALL", "ENABLE REPLICA TRIGGER {internal}"])
def test_nothing_cascades_through_a_key_whose_triggers_are_off(family: Ground, table: str, how: str) -> None:
    [(internal,)] = family.rows(
        f"SELECT min(quote_ident(tgname)) FROM pg_trigger WHERE tgrelid = '{table}'::regclass"  # noqa: S608
    )
    assert judged(family, [CASCADE]) == []
    family.run(f"ALTER TABLE {table} {how.format(internal=internal)}")

    assert "nothing would cascade" in refused(family, CASCADE)

    family.run(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
    family.sweep(CASCADE)
    assert (family.ids("p"), family.ids("c")) == ([2], [2])


def test_a_key_that_is_off_for_one_partition_is_off(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE p (id int, at timestamptz, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "CREATE INDEX p_at ON p (at)",
        "CREATE TABLE c (id int PRIMARY KEY, pid int REFERENCES p (id) ON DELETE CASCADE)",
        "CREATE INDEX c_pid ON c (pid)",
    )
    assert judged(postgres, [CASCADE]) == []
    postgres.run("ALTER TABLE p2 DISABLE TRIGGER ALL")

    assert "nothing would cascade" in refused(postgres, CASCADE)


@pytest.mark.parametrize("mode", ["delete_first", "wait_for", "set_null"])
def test_other_modes_leave_no_orphans_where_the_triggers_are_off(family: Ground, mode: str) -> None:
    family.run("ALTER TABLE p DISABLE TRIGGER ALL")
    if mode == "wait_for":
        family.sweep(Table("p", [older_than("at", keep_for="1d", wait_for=["c.pid"])]))
    else:
        family.sweep(Table("p", [AGED], children={"c.pid": mode}))

    assert family.rows("SELECT id FROM c WHERE pid IS NOT NULL AND pid NOT IN (SELECT id FROM p)") == []


def test_a_session_that_fires_nothing_deletes_nothing(family: Ground) -> None:
    joined = "&" if "?" in family.url else "?"
    silent = Ground(f"{family.url}{joined}options=-csession_replication_role%3Dreplica")
    assert judged(family, [CASCADE]) == []

    message = refused(silent, CASCADE)

    assert "session_replication_role = origin" in message


FOREIGN = (
    "CREATE FOREIGN DATA WRAPPER nowhere",
    "CREATE SERVER elsewhere FOREIGN DATA WRAPPER nowhere",
)


def test_rows_of_a_foreign_table_that_inherits_do_not_go(family: Ground) -> None:
    lone = Table("c", [older_than("id", keep_for="1d", unit="s")])
    family.run(*FOREIGN, "CREATE FOREIGN TABLE far () INHERITS (p) SERVER elsewhere")

    assert "kept by another server" in refused(family, CASCADE)

    family.run("DROP FOREIGN TABLE far", "CREATE FOREIGN TABLE far () INHERITS (c) SERVER elsewhere")
    family.run("ALTER TABLE c DROP CONSTRAINT c_pid_fkey")
    assert "kept by another server" in refused(family, lone)


def test_a_foreign_partition_stops_the_dropping_of_others(postgres: Ground) -> None:
    postgres.run(
        *FOREIGN,
        "CREATE TABLE p (id int, at timestamptz) PARTITION BY RANGE (at)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2020-01-01') TO ('2020-02-01')",
        "CREATE INDEX ON p (at)",
    )
    table = Table("p", [drop_partition("at", keep_for="1d")])
    assert "another server" not in " ".join(judged(postgres, [table]))
    postgres.run(
        "CREATE FOREIGN TABLE p2 PARTITION OF p FOR VALUES FROM ('2020-02-01') TO ('2020-03-01')"
        " SERVER elsewhere"
    )

    assert "kept by another server" in refused(postgres, table)


PUBLICATIONS = {
    "of the table": "CREATE PUBLICATION told FOR TABLE e",
    "of every table": "CREATE PUBLICATION told FOR ALL TABLES",
    "of a schema": "CREATE PUBLICATION told FOR TABLES IN SCHEMA public",
}


@pytest.mark.parametrize("publication", PUBLICATIONS.values(), ids=PUBLICATIONS)
def test_a_table_whose_deletes_name_no_row_to_subscribers_is_refused(
    postgres: Ground, publication: str
) -> None:
    postgres.run("CREATE TABLE e (id int NOT NULL UNIQUE, at timestamptz)", "CREATE INDEX ON e (at)")
    postgres.fill("e", [(1, ago(days=2)), (2, ahead(days=9_000))])
    table = Table("e", [AGED])
    postgres.run(publication)

    assert "REPLICA IDENTITY FULL" in refused(postgres, table)

    postgres.run("ALTER TABLE e REPLICA IDENTITY USING INDEX e_id_key")
    postgres.sweep(table)
    assert postgres.ids("e") == [2]


def test_a_publication_without_deletes_stops_nothing(postgres: Ground) -> None:
    postgres.run("CREATE TABLE e (id int NOT NULL UNIQUE, at timestamptz)", "CREATE INDEX ON e (at)")
    postgres.run("CREATE PUBLICATION told FOR TABLE e WITH (publish = 'insert')")

    assert judged(postgres, [Table("e", [AGED])]) == []
