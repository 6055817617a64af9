"""Evaluate schedules, and recover lost runs."""

from __future__ import annotations
