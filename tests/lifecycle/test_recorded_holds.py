"""Holds of contracts that the sweeping process does not have: the swept database remembers them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gandy.cli.main import main
from gandy.clock import ManualClock
from gandy.errors import ContractUnknownError
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    check,
    forget,
    inline,
    keep,
    older_than,
    plan,
    run_contracts,
)
from gandy.lifecycle.entry import delete_old_rows
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lifecycle.ground import Ground

RULE = older_than("at", keep_for="7d")
SWEEPS = Contract("sweeps", [Table("note", [RULE], children={"page.note_id": "delete_first"})])


def legal(*rules: Any, table: str = "note") -> Contract:  # noqa: ANN401  # rules of any kind
    return Contract("legal", [Table(table, [*rules, inline("the application")])])


def kept_by(ground: Ground, *contracts: Contract) -> None:
    """Each contract by a process of its own: it is told of no other."""
    for contract in contracts:
        [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))
        assert report.failures == []


@pytest.fixture
def notes(ground: Ground) -> Ground:
    ground.run(
        "CREATE TABLE note (id {key}, at {instant}, held {flag})",
        "CREATE INDEX by_age ON note (at)",
        "CREATE TABLE page (id {key}, note_id bigint REFERENCES note (id), held {flag})",
        "CREATE INDEX by_note ON page (note_id)",
    )
    ground.fill("note", [(1, ago(days=9), False), (2, ago(days=9), True), (3, ago(days=9), False)])
    ground.fill("page", [(30, 3, True), (10, 1, False)])
    return ground


def test_a_hold_counts_for_a_contract_of_another_process(notes: Ground) -> None:
    kept_by(notes, legal(keep("held", equals=True)), SWEEPS)

    assert notes.ids("note") == [2]


def test_a_hold_below_counts_for_a_contract_of_another_process(notes: Ground) -> None:
    kept_by(notes, legal(keep("held", equals=True), table="page"), SWEEPS)

    assert (notes.ids("note"), notes.ids("page")) == ([3], [30])


def test_plan_counts_what_is_remembered_and_says_whose_it_is(notes: Ground) -> None:
    kept_by(notes, legal(keep("held", equals=True), table="page"))

    [planned] = plan([SWEEPS], notes.url, clock=ManualClock(NOW))

    assert planned.rows == 2
    assert any("page of the contract legal" in note and "forget legal" in note for note in planned.notes)


def test_a_single_deletion_heeds_the_holds_of_the_application(notes: Ground) -> None:
    kept_by(notes, legal(keep("held", equals=True)))
    notes.run("DELETE FROM page")

    deleted = delete_old_rows(
        Table("note", [RULE], children={"page.note_id": "delete_first"}),
        notes.url,
        options=SweepOptions(clock=ManualClock(NOW)),
    )

    assert (deleted.deleted, notes.ids("note")) == (2, [2])


def test_a_hold_that_its_contract_no_longer_declares_counts_no_more(notes: Ground) -> None:
    kept_by(notes, legal(keep("held", equals=True)), legal(), SWEEPS)

    assert notes.ids("note") == []


def namesake(*tables: Table) -> Contract:
    """The contract of another application that has chosen the same name."""
    return Contract("legal", [*tables, Table("other", [RULE])])


BESIDE: dict[str, Callable[[], Contract]] = {
    "other tables": namesake,
    "rows above what is held": lambda: namesake(*SWEEPS.tables),
}


@pytest.mark.parametrize("beside", BESIDE)
def test_a_contract_of_the_same_name_takes_no_hold_of_another_table(notes: Ground, beside: str) -> None:
    notes.run("CREATE TABLE other (id {key}, at {instant})")
    kept_by(notes, legal(keep("held", equals=True), table="page"))

    kept_by(notes, BESIDE[beside](), BESIDE[beside](), SWEEPS)

    assert (notes.ids("note"), notes.ids("page")) == ([3], [30])
    assert forget(notes.url, "legal")["holds"] == 1
    kept_by(notes, SWEEPS)
    assert (notes.ids("note"), notes.ids("page")) == ([], [])


def test_a_remembered_hold_whose_column_is_gone_stops_the_rule(notes: Ground) -> None:
    kept_by(notes, legal(keep("held", equals=True)))
    notes.run("ALTER TABLE note DROP COLUMN held")

    [found] = check([SWEEPS], notes.url, clock=ManualClock(NOW))
    [report] = run_contracts([SWEEPS], notes.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert "no column held" in found.message
    assert "forget legal" in found.message
    assert [failure.table for failure in report.failures] == ["note"]
    assert notes.ids("note") == [1, 2, 3]


def test_a_forgotten_contract_holds_nothing(notes: Ground) -> None:
    kept_by(notes, legal(keep("held", equals=True)))

    assert forget(notes.url, "legal") == {"holds": 1, "rules": 0, "quarantined": 0}

    kept_by(notes, SWEEPS)
    assert notes.ids("note") == []


def test_a_contract_that_was_never_kept_cannot_be_forgotten(notes: Ground) -> None:
    kept_by(notes, SWEEPS)

    with pytest.raises(ContractUnknownError, match=r"contract legal; it has sweeps"):
        forget(notes.url, "legal")


def test_a_held_table_that_was_renamed_stops_the_rules_that_may_mean_it(notes: Ground) -> None:
    notes.run("DROP TABLE page")
    kept_by(notes, legal(keep("held", equals=True)))
    notes.run("ALTER TABLE note RENAME TO memo", "CREATE TABLE other (id {key}, at {instant})")
    notes.fill("other", [(1, ago(days=9))])
    contract = Contract("sweeps", [Table("memo", [RULE]), Table("other", [RULE])])

    [report] = run_contracts([contract], notes.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert [failure.table for failure in report.failures] == ["memo"]
    assert "forget legal" in report.failures[0].error
    assert (notes.ids("memo"), notes.ids("other")) == ([1, 2, 3], [])


def test_a_contract_that_keeps_rows_of_a_renamed_table_is_not_forgotten(notes: Ground) -> None:
    notes.run("DROP TABLE page")
    kept_by(notes, legal(keep("held", equals=True)))
    notes.run("ALTER TABLE note RENAME TO memo")
    run_contracts([legal(keep("held", equals=True))], notes.url, options=SweepOptions(clock=ManualClock(NOW)))

    contract = Contract("sweeps", [Table("memo", [RULE])])
    run_contracts([contract], notes.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert notes.ids("memo") == [1, 2, 3]


CONTRACTS = """
version = 1
[lifecycle.{name}]
[[lifecycle.{name}.tables]]
name = "note"
rules = [{rule}]
children = {{ "page.note_id" = "delete_first" }}
"""


def test_two_files_on_one_database_from_the_command_line(
    notes: Ground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes.run("DELETE FROM page")
    files = {
        "legal": '{ keep = { column = "held", equals = true } }',
        "sweeps": '{ older_than = "at", keep_for = "7d" }',
    }
    for name, rule in files.items():
        (tmp_path / name).write_text(CONTRACTS.format(name=name, rule=rule))

    def gandy(*words: str) -> object:
        with pytest.raises(SystemExit) as ended:
            main(["lifecycle", *words, "--target", notes.url])
        return ended.value.code

    assert gandy("sweep", "--contract", str(tmp_path / "legal")) == 0
    assert gandy("sweep", "--contract", str(tmp_path / "sweeps")) == 0
    assert notes.ids("note") == [2]
    assert gandy("forget", "legal") == 2  # without a terminal it must be agreed to
    assert gandy("forget", "nothing", "--yes") == 1
    capsys.readouterr()
    assert gandy("forget", "legal", "--yes", "--json") == 0
    assert json.loads(capsys.readouterr().out)["holds"] == 1
    assert gandy("sweep", "--contract", str(tmp_path / "sweeps")) == 0
    assert notes.ids("note") == []
