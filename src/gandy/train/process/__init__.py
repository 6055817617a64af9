"""Run a train in its own process."""

from __future__ import annotations
