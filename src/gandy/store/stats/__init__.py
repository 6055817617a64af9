"""Statistics of runs, and sizes of tables over time."""

from __future__ import annotations
