"""Tools for tests of applications: a manual clock, and a harness that runs the real service code."""

from __future__ import annotations

from gandy.clock import ManualClock
from gandy.testing.harness import Harness

__all__ = ["Harness", "ManualClock"]
