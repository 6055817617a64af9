"""Upkeep: keep Gandy's own tables and the application's tables bounded."""

from __future__ import annotations
