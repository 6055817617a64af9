"""Commands that show figures over time."""

from __future__ import annotations
