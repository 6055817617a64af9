"""The public names. Adding one is a decision and removing one breaks somebody: change this on purpose."""

from __future__ import annotations

import importlib
import types

import pytest

MOST_NAMES_AT_THE_FRONT_DOOR = 20

PUBLIC: dict[str, list[str]] = {
    "gandy": [
        "NO_TIMEOUT",
        "DateRange",
        "Dates",
        "Days",
        "DeleteOldRows",
        "Delivery",
        "End",
        "Gandy",
        "GandyError",
        "HookEvent",
        "Job",
        "OldRows",
        "Retry",
        "Run",
        "Submitter",
        "TimeWindow",
        "Train",
        "cron",
        "current_run",
        "every",
    ],
    "gandy.lifecycle": [
        "SweepOptions",
        "Contract",
        "Table",
        "Throttle",
        "audit",
        "cap",
        "check",
        "drop_partition",
        "expires",
        "forget",
        "inline",
        "keep",
        "keep_last",
        "load",
        "loads",
        "matrix",
        "matrix_markdown",
        "older_than",
        "plan",
        "quarantine",
        "release",
        "run_contracts",
        "singleton",
        "stale_cursor",
        "sweep",
        "terminal",
    ],
    "gandy.testing": ["Harness", "ManualClock"],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_the_pinned_ones(module: str) -> None:
    exported = getattr(importlib.import_module(module), "__all__", [])

    assert sorted(exported) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", PUBLIC)
def test_nothing_looks_public_that_is_not(module: str) -> None:
    names = vars(importlib.import_module(module)).items()
    visible = {
        name for name, value in names if not name.startswith("_") and not isinstance(value, types.ModuleType)
    } - {"annotations"}

    assert visible <= set(PUBLIC[module])


def test_the_front_door_stays_small() -> None:
    assert len(PUBLIC["gandy"]) <= MOST_NAMES_AT_THE_FRONT_DOOR
