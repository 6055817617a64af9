"""Tools for tests of applications: a manual clock, and a harness that runs the real service code."""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from gandy.clock import ManualClock
    from gandy.testing.harness import Harness

__all__ = ["Harness", "ManualClock"]

_HOMES = {"Harness": "gandy.testing.harness", "ManualClock": "gandy.clock"}


def __getattr__(name: str) -> object:
    """Import a public name at its first use: pytest loads this package wherever Gandy is installed."""
    if name not in _HOMES:
        raise AttributeError(f"module 'gandy.testing' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
