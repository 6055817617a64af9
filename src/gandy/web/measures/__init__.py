"""Figures over time: statistics of runs, and small charts."""

from __future__ import annotations
