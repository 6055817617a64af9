"""Gandy: a job scheduler on your own database whose tables never grow without bound."""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from gandy.app import Gandy, Job
    from gandy.app.delete_old_rows import DeleteOldRows, OldRows
    from gandy.errors import GandyError
    from gandy.model.exclusion import DateRange, Dates, Days, TimeWindow
    from gandy.rules.schedules import cron, every
    from gandy.settings.bounds import NO_TIMEOUT
    from gandy.store.runs import Delivery
    from gandy.submit import Submitter
    from gandy.train.base import Train
    from gandy.train.failure import End, Retry
    from gandy.train.hooks import HookEvent
    from gandy.train.run import Run, current_run

__all__ = [
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
]

_HOMES = {
    "NO_TIMEOUT": "gandy.settings.bounds",
    "DateRange": "gandy.model.exclusion",
    "Dates": "gandy.model.exclusion",
    "Days": "gandy.model.exclusion",
    "DeleteOldRows": "gandy.app.delete_old_rows",
    "Delivery": "gandy.store.runs",
    "End": "gandy.train.failure",
    "Gandy": "gandy.app",
    "GandyError": "gandy.errors",
    "HookEvent": "gandy.train.hooks",
    "Job": "gandy.app",
    "OldRows": "gandy.app.delete_old_rows",
    "Retry": "gandy.train.failure",
    "Run": "gandy.train.run",
    "Submitter": "gandy.submit",
    "TimeWindow": "gandy.model.exclusion",
    "Train": "gandy.train.base",
    "cron": "gandy.rules.schedules",
    "current_run": "gandy.train.run",
    "every": "gandy.rules.schedules",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that `gandy --help` starts without loading everything."""
    if name not in _HOMES:
        raise AttributeError(f"module 'gandy' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
