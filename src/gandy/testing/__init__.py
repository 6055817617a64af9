"""For the tests of applications: a manual clock, and a harness that runs the services' own code."""

from __future__ import annotations

from gandy.clock import ManualClock
from gandy.testing.harness import Harness

__all__ = ["Harness", "ManualClock"]
