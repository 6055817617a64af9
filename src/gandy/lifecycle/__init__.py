"""Maintenance contracts for any table of any application; independent of the scheduler.

Only modules that use a database import SQLAlchemy, so that declaring a contract is cheap.
"""

from __future__ import annotations

import importlib
import typing

from gandy import errors
from gandy.lifecycle.contract.build import (
    cap,
    drop_partition,
    expires,
    inline,
    keep,
    keep_last,
    older_than,
    singleton,
    stale_cursor,
    terminal,
)
from gandy.lifecycle.contract.tables import Contract, Table, Throttle, matrix, matrix_markdown
from gandy.lifecycle.contract.toml import load, loads

if typing.TYPE_CHECKING:
    from gandy.lifecycle.entry import check, forget, quarantine, release, sweep
    from gandy.lifecycle.reports.audit import audit
    from gandy.lifecycle.reports.plan import plan
    from gandy.lifecycle.supervisor.tick import SweepOptions, run_contracts

__all__ = [
    "Contract",
    "SweepOptions",
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
]

_NEEDS_A_DATABASE = {
    "SweepOptions": "gandy.lifecycle.supervisor.tick",
    "audit": "gandy.lifecycle.reports.audit",
    "check": "gandy.lifecycle.entry",
    "forget": "gandy.lifecycle.entry",
    "plan": "gandy.lifecycle.reports.plan",
    "quarantine": "gandy.lifecycle.entry",
    "release": "gandy.lifecycle.entry",
    "run_contracts": "gandy.lifecycle.supervisor.tick",
    "sweep": "gandy.lifecycle.entry",
}


def __getattr__(name: str) -> object:
    if name not in _NEEDS_A_DATABASE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_NEEDS_A_DATABASE[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        raise errors.MissingExtraError("the lifecycle of application tables", "lifecycle") from error
