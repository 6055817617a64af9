"""Keeping a contract of the application once, with a run of TableMaintenance as its record."""

from __future__ import annotations
