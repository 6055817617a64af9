"""State tables that were dropped: lost holds stop every sweep, all else is made again."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.errors import StateObstructedError
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    audit,
    check,
    inline,
    keep,
    older_than,
    plan,
    run_contracts,
    sweep,
)
from gandy.lifecycle.entry import delete_old_rows
from tests.lifecycle.ground import NOW, ago
from tests.lifecycle.paths import STATE_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.lifecycle.supervisor.report import ContractReport
    from tests.lifecycle.ground import Ground

RULE = older_than("at", keep_for="7d")
NOTES = Table("note", [RULE])
SWEEPS = Contract("sweeps", [NOTES])
LEGAL = Contract("legal", [Table("note", [keep("held", equals=True), inline("the application")])])
BY = SweepOptions(clock=ManualClock(NOW))
LOST = "gandy_lifecycle_hold is missing"
DOORS: list[Callable[[Ground], object]] = [
    lambda ground: sweep([SWEEPS], ground.url, options=BY),
    lambda ground: plan([SWEEPS], ground.url, clock=ManualClock(NOW)),
    lambda ground: delete_old_rows(NOTES, ground.url, options=BY),
]
# With the holds, whatever else shows that contracts were swept; and all but the holds.
DROPPED = [
    *(("hold", *others) for size in range(3) for others in combinations(("lease", "rule"), size)),
    ("audit", "lease", "quarantine", "rule"),
]


@pytest.fixture
def notes(ground: Ground) -> Ground:
    """A row is held by a contract that deletes nothing, so that only its lease and its hold are recorded."""
    ground.run("CREATE TABLE note (id {key}, at {instant}, held {flag})", "CREATE INDEX by_age ON note (at)")
    ground.fill("note", [(1, ago(days=9), False), (2, ago(days=9), True)])
    assert kept(ground, LEGAL).failures == []
    return ground


def kept(ground: Ground, contract: Contract) -> ContractReport:
    [report] = run_contracts([contract], ground.url, options=BY)
    return report


def drop(ground: Ground, *tables: str) -> None:
    ground.run(*(f"DROP TABLE gandy_lifecycle_{table}" for table in tables))


@pytest.mark.parametrize("door", DOORS, ids=["sweep", "plan", "train"])
def test_holds_that_were_dropped_stop_every_door_until_a_person_makes_the_table(
    notes: Ground, door: Callable[[Ground], object]
) -> None:
    drop(notes, "hold")

    [found] = check([SWEEPS], notes.url, clock=ManualClock(NOW))
    assert LOST in found.message
    for _ in range(2):  # the lease of a first try does not open the second
        with pytest.raises(StateObstructedError, match=LOST):
            door(notes)
    audit([], notes.url)  # makes nothing silently either
    [failure] = kept(notes, SWEEPS).failures
    assert LOST in failure.error
    assert notes.ids("note") == [1, 2]

    notes.run(found.remedy.partition("run: ")[2].partition(";")[0])
    for contract in (LEGAL, SWEEPS):
        assert kept(notes, contract).failures == []
    door(notes)
    assert notes.ids("note") == [2]


def test_every_set_of_dropped_tables_is_made_again_or_refused(notes: Ground) -> None:
    kept(notes, SWEEPS)
    for dropped in DROPPED:
        left = [table for table in ("lease", "quarantine", "rule") if table not in dropped]
        counts = [len(notes.ids(f"gandy_lifecycle_{table}", "scheduler")) for table in left]
        drop(notes, *dropped)

        failures = kept(notes, SWEEPS).failures

        is_lost = "hold" in dropped and any(counts)
        assert [LOST in failure.error for failure in failures] == [True] * is_lost, dropped
        if "hold" not in dropped:
            assert notes.ids("note") == [2], dropped
        drop(notes, *(table for table in STATE_TABLES if not is_lost or table not in dropped))
        assert kept(notes, LEGAL).failures == []
        kept(notes, SWEEPS)
        notes.run("DELETE FROM note")
        notes.fill("note", [(1, ago(days=9), False), (2, ago(days=9), True)])


def test_a_state_that_was_never_used_lacks_nothing(ground: Ground) -> None:
    ground.run("CREATE TABLE note (id {key}, at {instant}, held {flag})")
    audit([], ground.url)
    drop(ground, "hold")

    assert kept(ground, SWEEPS).failures == []


def test_the_first_version_recorded_no_holds(notes: Ground) -> None:
    kept(notes, SWEEPS)
    drop(notes, "hold")
    notes.run("ALTER TABLE gandy_lifecycle_rule DROP COLUMN agreed")

    assert check([SWEEPS], notes.url, clock=ManualClock(NOW)) == []
    assert kept(notes, SWEEPS).failures == []


def test_a_table_of_another_shape_is_named(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE note (id {key}, at {instant}, held {flag})",
        "CREATE INDEX by_age ON note (at)",
        "CREATE TABLE gandy_lifecycle_hold (id {key}, scheduler varchar)",
    )

    [found] = check([SWEEPS], ground.url)
    [failure] = kept(ground, SWEEPS).failures

    words = "gandy_lifecycle_hold is no table of the lifecycle: it lacks column_name, equals, schema_name"
    assert words in found.message
    assert words in failure.error
