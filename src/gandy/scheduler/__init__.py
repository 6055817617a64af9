"""Schedules: evaluating them, and recovering runs that are lost."""

from __future__ import annotations
