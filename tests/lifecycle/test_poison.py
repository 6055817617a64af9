from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.lifecycle import Table, expires, quarantine, release
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    import pytest

    from tests.lifecycle.ground import Ground

LEASES = Table("lease", [expires("expires_at")], triggers=["guard", "late"])
OTHERS = Table("other", [expires("expires_at")])
GUARDS = {
    "postgresql": (
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'row % is sacred', OLD.id; END $$
        """,
        (
            "CREATE TRIGGER guard BEFORE DELETE ON lease FOR EACH ROW WHEN (OLD.id IN {ids})"
            " EXECUTE FUNCTION refuse()"
        ),
    ),
    "sqlite": (
        """
        CREATE TRIGGER guard BEFORE DELETE ON lease WHEN OLD.id IN {ids}
        BEGIN SELECT RAISE(ABORT, 'this row is sacred'); END
        """,
    ),
}


def make(ground: Ground, rows: int, poison: tuple[int, ...]) -> None:
    for table in ("lease", "other"):
        ground.run(f"CREATE TABLE {table} (id {{key}}, expires_at {{instant}})")
        ground.run(f"CREATE INDEX by_expiry_of_{table} ON {table} (expires_at)")
        ground.fill(table, [(n, ago(minutes=n)) for n in range(1, rows + 1)])
    listed = f"({', '.join(map(str, poison))})"
    for statement in GUARDS[ground.kind]:
        ground.run(statement.replace("{ids}", listed))


def test_one_poison_row_is_quarantined_and_every_other_row_of_every_table_goes(ground: Ground) -> None:
    make(ground, 1_000, poison=(321,))

    report = ground.sweep(LEASES, OTHERS)

    assert (ground.ids("lease"), ground.ids("other")) == ([321], [])
    assert report.counts == {"lease": 999, "other": 1_000}
    [row] = quarantine(ground.url)
    assert (row.scheduler, row.table, row.rule) == ("app", "lease", "expires:expires_at")
    assert row.key == (321,)
    assert "sacred" in row.error


def test_later_sweeps_do_not_stumble_over_a_quarantined_row(ground: Ground) -> None:
    make(ground, 50, poison=(7,))
    ground.sweep(LEASES)
    ground.fill("lease", [(n, ago(minutes=n)) for n in range(100, 150)])

    report = ground.sweep(LEASES)

    assert ground.ids("lease") == [7]
    [outcome] = report.rules
    assert (outcome.rows, outcome.set_aside, outcome.reason) == (50, 0, None)


def test_a_released_row_is_tried_again(ground: Ground) -> None:
    make(ground, 50, poison=(7,))
    ground.sweep(LEASES)
    ground.run("DROP TRIGGER guard" + (" ON lease" if ground.kind == "postgresql" else ""))

    still_there = ground.sweep(LEASES).deleted
    released = release(ground.url)
    report = ground.sweep(LEASES)

    assert (still_there, released, report.deleted) == (0, 1, 1)
    assert quarantine(ground.url) == []


def test_a_table_whose_rows_all_refuse_stops_no_other_table(ground: Ground) -> None:
    make(ground, 300, poison=tuple(range(1, 301)))

    report = ground.sweep(LEASES, OTHERS)

    assert ground.ids("other") == []
    assert len(ground.ids("lease")) == 300
    assert report.failures == []
    assert report.rules[0].set_aside == 300
    assert "sacred" in (report.rules[0].reason or "")


def test_a_row_that_a_deferred_check_holds_is_found_before_the_commit(postgres: Ground) -> None:
    make(postgres, 20, poison=(0,))
    postgres.run(
        """
        CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF OLD.id = 9 THEN RAISE EXCEPTION 'held'; END IF; RETURN NULL; END $$
        """,
        "CREATE CONSTRAINT TRIGGER late AFTER DELETE ON lease DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION later()",
    )

    postgres.sweep(LEASES)

    assert postgres.ids("lease") == [9]
    assert [row.key for row in quarantine(postgres.url)] == [(9,)]


def test_what_is_remembered_about_rows_and_rules_that_are_gone_is_forgotten(ground: Ground) -> None:
    make(ground, 50, poison=(7,))
    ground.sweep(LEASES, OTHERS)
    assert len(quarantine(ground.url)) == 1
    ground.run("DROP TRIGGER guard" + (" ON lease" if ground.kind == "postgresql" else ""))
    ground.run("DELETE FROM lease WHERE id = 7")

    ground.sweep(LEASES)

    assert quarantine(ground.url) == []
    assert ground.rows("SELECT table_name FROM gandy_lifecycle_rule") == [("lease",)]


def test_a_full_quarantine_stops_its_rule(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    make(ground, 1_100, poison=(0,))
    ground.sweep(Table("other", [expires("expires_at", grace="3650d")]))
    ground.run(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1100)"  # noqa: S608
        " INSERT INTO gandy_lifecycle_quarantine SELECT 'app', 'lease', '[' || n || ']', 'expires', 'no',"
        f" '{ground.value(NOW)}' FROM numbers"
    )
    monkeypatch.setattr("gandy.lifecycle.supervisor.run._MOST_IN_QUARANTINE", 1_000)

    report = ground.sweep(LEASES, OTHERS)

    assert "rows of the table are in quarantine" in report.failures[0].error
    assert (len(ground.ids("lease")), ground.ids("other")) == (1_100, [])
