"""The mutants, and the tests that are run on each."""

from __future__ import annotations

from tests.lifecycle.mutants.driving import DRIVING
from tests.lifecycle.mutants.judging import JUDGING

MUTANTS = (*JUDGING, *DRIVING)
#: Run on every mutant after its own tests, from the quickest to the slowest.
SUITE = (
    "test_holds.py",
    "test_recorded_holds.py",
    "test_children.py",
    "test_obstacles.py",
    "test_stubborn_rows.py",
    "test_units.py",
    "test_unit_windows.py",
    "test_catalogue.py",
    "test_equality.py",
    "test_odd_keys.py",
    "test_strange_values.py",
    "test_skipping_triggers.py",
    "test_many_children.py",
    "test_ties.py",
    "test_changed_grounds.py",
    "test_partitions.py",
    "test_races.py",
    "test_rules.py",
    "test_plan_is_run.py",
    "test_confirmation.py",
    "test_confirmation_sums.py",
    "test_writers.py",
    "fuzz",
)
