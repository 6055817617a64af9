"""Audit and plan, also on schemas that this project did not make."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, Table, audit, expires, keep_last, older_than, plan
from gandy.lifecycle.database.dialect import TableSize
from gandy.lifecycle.reports.audit import UNBOUNDED
from gandy.lifecycle.state.setup import open_state
from gandy.lifecycle.state.tables import MeasuredTable, record_size
from tests.lifecycle.ground import NOW, Ground, ago
from tests.support import postgres_found

if TYPE_CHECKING:
    from gandy.lifecycle.reports.audit import AuditedTable

DJANGO = Path(__file__).parent / "django_schema.sql"


def audited(ground: Ground, *contracts: Contract, now: object = None) -> dict[str, AuditedTable]:
    clock = ManualClock(NOW if now is None else NOW + timedelta(days=1))
    return {table.table: table for table in audit(contracts, ground.url, clock=clock)}


def test_every_table_has_its_bound_or_is_called_unbounded(ground: Ground) -> None:
    ground.run("CREATE TABLE event (id {key}, at {instant})", "CREATE TABLE other (id {key})")
    contract = Contract("app", [Table("event", [older_than("at", keep_for="7d")])])

    tables = audited(ground, contract)

    assert (tables["event"].bound, tables["event"].scheduler) == ("at older than 1w", "app")
    assert tables["other"].bound == UNBOUNDED
    assert {name for name, table in tables.items() if not table.is_bounded} == {"other"}


def test_growth_is_told_since_the_last_audit(ground: Ground) -> None:
    ground.run("CREATE TABLE event (id {key}, at {instant})")
    ground.fill("event", [(n, NOW) for n in range(10)])
    first = audited(ground)["event"]
    ground.fill("event", [(n, NOW) for n in range(10, 2_000)])

    second = audited(ground, now="later")["event"]

    assert (first.rows_grown, first.since) == (None, None)
    assert (second.rows_grown, second.since) == (1_990, NOW)
    assert (second.bytes_grown or 0) > 0


def test_what_the_audit_remembers_is_bounded(ground: Ground) -> None:
    ground.run("CREATE TABLE event (id {key}, at {instant})")
    audit([], ground.url, clock=ManualClock(NOW))
    with open_state(ground.url) as session, session.writing() as connection:
        for day in range(1, 120):
            record_size(connection, "event", MeasuredTable(NOW + timedelta(days=day), TableSize(day, None)))

    kept = ground.rows(
        "SELECT count(*), min(rows), max(rows) FROM gandy_lifecycle_audit WHERE table_name = 'event'"
    )

    assert kept == [(100, 20, 119)]


def test_a_plan_reads_only_and_makes_no_tables(ground: Ground) -> None:
    ground.run("CREATE TABLE event (id {key}, at {instant})", "CREATE INDEX by_age ON event (at)")
    ground.fill("event", [(n, ago(hours=n)) for n in range(100)])
    contract = Contract("app", [Table("event", [older_than("at", keep_for="24h")])])

    [planned] = plan([contract], ground.url, clock=ManualClock(NOW))

    assert (planned.rows, planned.oldest, planned.newest) == (76, ago(hours=99), ago(hours=24))
    assert (planned.index, planned.batches, planned.refused) == ("by_age", 1, None)
    assert len(ground.ids("event")) == 100
    assert set(audited(ground)) - {"event"} == {
        "gandy_lifecycle_audit",
        "gandy_lifecycle_hold",
        "gandy_lifecycle_lease",
        "gandy_lifecycle_quarantine",
        "gandy_lifecycle_rule",
    }


def test_partitions_are_audited_as_the_table_they_belong_to(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE event (id bigint, at timestamptz) PARTITION BY RANGE (at)",
        "CREATE TABLE event_2026 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
    )
    postgres.fill("event", [(n, NOW) for n in range(100)])

    tables = audited(postgres)

    assert "event_2026" not in tables
    assert tables["event"].rows == 100


def test_pgbench_is_audited_and_planned(postgres: Ground) -> None:
    pgbench = postgres_found.newest().programs / "pgbench"
    subprocess.run([pgbench, "-q", "-i", postgres.url], check=True, capture_output=True)
    postgres.run(
        "INSERT INTO pgbench_history SELECT 1, 1, n, 0, now() - n * interval '1 h'"
        " FROM generate_series(1, 99) AS n"
    )
    contract = Contract(
        "bench",
        [
            Table("pgbench_history", [older_than("mtime", keep_for="50h30m")]),
            Table("pgbench_accounts", [keep_last(10, per=["bid"], order_by="aid")]),
        ],
    )

    tables = {table.table: table for table in audit([contract], postgres.url)}
    planned = plan([contract], postgres.url)

    assert tables["pgbench_history"].bound == "mtime older than 2d2h30m"
    assert tables["pgbench_accounts"].rows == 100_000
    assert {name for name, table in tables.items() if not table.is_bounded} == {
        "pgbench_branches",
        "pgbench_tellers",
    }
    assert [(rule.rows, rule.refused is None) for rule in planned] == [(49, True), (0, False)]
    assert "CREATE INDEX" in str(planned[1].refused)


def test_djangos_own_tables_are_audited_and_planned(ground: Ground) -> None:
    ground.run(*(part for part in DJANGO.read_text(encoding="utf-8").split(";") if part.strip()))
    ground.fill("django_session", [(f"{n:040}", "{}", ago(days=n)) for n in range(-5, 5)])
    contract = Contract(
        "django",
        [
            Table("django_session", [expires("expire_date")]),
            Table("auth_user", [older_than("last_login", keep_for="3650d")]),
        ],
    )

    tables = audited(ground, contract)
    planned = plan([contract], ground.url, clock=ManualClock(NOW))

    assert tables["django_session"].bound == "expire_date has passed"
    assert {name for name, table in tables.items() if table.bound == UNBOUNDED} == {
        "auth_group",
        "auth_group_permissions",
        "auth_permission",
        "auth_user_groups",
        "auth_user_user_permissions",
        "django_admin_log",
        "django_content_type",
        "django_migrations",
    }
    assert (planned[0].rows, planned[0].refused) == (5, None)
    assert "refused" not in str(planned[0].warnings)
    assert "django_admin_log.user_id" in str(planned[1].refused) or "auth_user_" in str(planned[1].refused)
