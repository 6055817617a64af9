"""A sweep that finds nothing costs a handful of pages per rule, whatever is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    cap,
    expires,
    keep_last,
    older_than,
    plan,
    run_contracts,
    terminal,
)
from gandy.lifecycle.advisor.survey import survey
from gandy.lifecycle.database.failures import Explain
from gandy.lifecycle.database.target import open_target
from gandy.lifecycle.driver.caps import PAGES_PER_TICK
from gandy.lifecycle.selection.statements import last_row, nth_row
from gandy.lifecycle.selection.walks import AgeWalk
from tests.lifecycle.ground import NOW, ms

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground

ROWS = 120_000
ROWS_OF_EACH = 60_000  # several hundred pages of each of the fourteen tables, and of each index
PAGES_PER_RULE = 60  # a few descents of a few indexes, and the look at the column's ends and units
LAYOUTS = {
    "bare": Table("bare", [expires("at_ms", unit="ms")]),
    "aged": Table("aged", [older_than("at", keep_for="1h")]),
    "ended": Table("ended", [terminal("status", states=["failed", "done"], at="at", keep_for="1h")]),
}
TABLES = [Table(f"{name}_{number}", table.rules) for number in range(5) for name, table in LAYOUTS.items()][
    :14
]
PAGES = """
    SELECT relname, heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit FROM pg_statio_user_tables
"""


def fill(postgres: Ground) -> None:
    for table in TABLES:
        postgres.run(
            f"CREATE UNLOGGED TABLE {table.name} (id bigint PRIMARY KEY, at_ms bigint, at timestamptz,"
            " status text)",
            f"INSERT INTO {table.name} SELECT n, {ms(NOW)} + n, '{NOW}'::timestamptz + n * interval '1 ms',"  # noqa: S608
            f" (ARRAY['failed', 'done', 'queued'])[n % 3 + 1] FROM generate_series(1, {ROWS_OF_EACH}) AS n",
            f"CREATE INDEX ON {table.name} (at_ms)",
            f"CREATE INDEX ON {table.name} (at)",
            f"CREATE INDEX ON {table.name} (status, at)",
        )


def pages(postgres: Ground) -> dict[str, int]:
    return {name: int(count) for name, count in postgres.rows(PAGES)}


@pytest.mark.timeout(300)
def test_fourteen_large_tables_with_nothing_expired_cost_a_handful_of_pages_per_rule(
    postgres: Ground,
) -> None:
    fill(postgres)
    contract = Contract("app", TABLES)
    by = SweepOptions(clock=ManualClock(NOW))
    assert len(contract.tables) == 14
    run_contracts([contract], postgres.url, options=by)  # the first run also asks how large tables are
    before = pages(postgres)

    [report] = run_contracts([contract], postgres.url, options=by)

    assert (report.failures, report.deleted, len(report.rules)) == ([], 0, 18)
    after = pages(postgres)
    touched = {table.name: after[table.name] - before[table.name] for table in TABLES}
    walks = {"bare": 1, "aged": 1, "ended": 2}
    allowed = {name: walks[name.split("_")[0]] * PAGES_PER_RULE for name in touched}
    assert all(0 < touched[name] <= allowed[name] for name in touched), touched


@pytest.mark.timeout(300)
def test_a_cap_reads_no_more_than_its_pages_and_the_next_tick_goes_on(postgres: Ground) -> None:
    postgres.run(
        "CREATE UNLOGGED TABLE presence (tenant bigint, seen bigint, PRIMARY KEY (tenant, seen))",
        f"INSERT INTO presence SELECT n % 400, n FROM generate_series(1, {ROWS}) AS n",  # noqa: S608
    )
    postgres.run("VACUUM ANALYZE presence")
    table = Table("presence", [keep_last(299, per=["tenant"], order_by="seen")])
    postgres.sweep(table)
    reached: list[str | None] = []
    while not reached or reached[-1] is not None:
        before = pages(postgres)["presence"]
        postgres.sweep(table)
        assert pages(postgres)["presence"] - before <= PAGES_PER_TICK + 50
        reached.append(postgres.rows("SELECT cursor FROM gandy_lifecycle_rule")[0][0])

    assert len(reached) > 3
    assert len(set(reached)) == len(reached)
    assert postgres.rows("SELECT max(n) FROM (SELECT count(*) AS n FROM presence GROUP BY tenant) AS x") == [
        (299,)
    ]


def test_every_statement_of_a_walk_is_a_search_on_sqlite(sqlite: Ground) -> None:
    for table in TABLES:
        sqlite.run(
            f"CREATE TABLE {table.name} (id INTEGER PRIMARY KEY, at_ms INTEGER, at TEXT, status TEXT)",
            f"CREATE INDEX {table.name}_ms ON {table.name} (at_ms)",
            f"CREATE INDEX {table.name}_at ON {table.name} (at)",
            f"CREATE INDEX {table.name}_status ON {table.name} (status, at)",
        )
    contract = Contract("app", TABLES)
    steps: list[str] = []
    with open_target(sqlite.url) as session:
        seen = survey(session, contract, NOW)
        assert seen.findings == ()
        with session.reading() as connection:
            for walk in (walk for rule in seen.rules for walk in rule.walks):
                assert isinstance(walk, AgeWalk)
                selection = walk.frozen_at(NOW)
                for statement in (nth_row(selection, None, 500), last_row(selection, None)):
                    steps += [row.detail for row in connection.execute(Explain(statement))]

    assert len(steps) >= 2 * 18
    assert all(step.startswith(("SEARCH", "USE TEMP B-TREE FOR LAST TERM")) for step in steps), steps


def test_the_plan_names_the_index_of_every_rule(sqlite: Ground) -> None:
    sqlite.run(
        "CREATE TABLE bare (id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, at_ms INTEGER)",
        "CREATE INDEX by_expiry ON bare (at_ms)",
        "CREATE INDEX by_tenant ON bare (tenant, at_ms)",
    )
    table = Table("bare", [expires("at_ms", unit="ms"), cap(3, per=["tenant"], order_by="at_ms")])

    planned = plan([Contract("app", [table])], sqlite.url)

    assert [rule.index for rule in planned] == ["by_expiry", "by_tenant"]
