"""A sweep that its budget ends says which rows are left."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from gandy.cli.main import main
from gandy.lifecycle import Contract, Table, cap, older_than, run_contracts
from gandy.sweep import Budget
from tests.lifecycle.ground import ago

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lifecycle.ground import Ground

CONTRACT = """
version = 1
[lifecycle.app]
budget = { BUDGET }
[[lifecycle.app.tables]]
name = "event"
rules = [{ older_than = "at", keep_for = "1h" }]
[[lifecycle.app.tables]]
name = "visit"
rules = [{ older_than = "at", keep_for = "1h" }]
"""
ROWS = {"event": 30, "visit": 7}


@pytest.fixture
def tables(ground: Ground) -> Ground:
    for table, rows in ROWS.items():
        ground.run(
            f"CREATE TABLE {table} (id {{key}}, at {{instant}})", f"CREATE INDEX {table}_at ON {table} (at)"
        )
        ground.fill(table, [(number, ago(days=9, minutes=number)) for number in range(rows)])
    return ground


def swept(ground: Ground, folder: Path, budget: str) -> Result:
    file = folder / "lifecycle.toml"
    file.write_text(CONTRACT.replace("BUDGET", budget), encoding="utf-8")
    arguments = ["lifecycle", "sweep", "--contract", str(file), "--target", ground.url, "--yes", "--json"]
    return CliRunner().invoke(main, arguments, prog_name="gandy")


@pytest.mark.parametrize("rows", [1, 2, 13, 36, 37, 38])
def test_what_a_budget_of_rows_leaves_is_told_by_table(tables: Ground, tmp_path: Path, rows: int) -> None:
    result = swept(tables, tmp_path, f"rows = {rows}")

    left = {table: len(tables.ids(table)) for table in ROWS}
    [report] = json.loads(result.stdout)
    told = {each["table"]: (each["budget"], each["left"]) for each in report["unfinished"]}
    assert told == {table: ("rows", count) for table, count in left.items() if count}
    assert sum(left.values()) == max(sum(ROWS.values()) - rows, 0)
    for table, count in left.items():
        said = f"table {table}: older_than at: stopped by budget.rows, {count:,} rows are left"
        assert (said in result.stderr) == bool(count)
    assert result.exit_code == 0


def test_what_a_budget_of_time_leaves_is_told(tables: Ground, tmp_path: Path) -> None:
    result = swept(tables, tmp_path, 'time = "1us"')

    left = {table: len(tables.ids(table)) for table in ROWS}
    [report] = json.loads(result.stdout)
    told = {each["table"]: (each["budget"], each["left"]) for each in report["unfinished"]}
    assert told == {table: ("time", count) for table, count in left.items() if count}
    assert result.stderr.count("raise budget.time") == len(told)


def test_rows_that_nothing_counts_may_be_left(tables: Ground) -> None:
    contract = Contract("app", [Table("event", [cap(3, order_by="at")])], budget=Budget(rows=5))

    [report] = run_contracts([contract], tables.url)

    assert [(each.table, each.budget, each.left) for each in report.unfinished] == [("event", "rows", None)]


def test_a_sweep_that_comes_to_its_end_leaves_nothing(tables: Ground) -> None:
    contract = Contract("app", [Table("event", [older_than("at", keep_for="1h")])])

    [report] = run_contracts([contract], tables.url)

    assert (report.unfinished, report.counts) == ([], {"event": 30})
