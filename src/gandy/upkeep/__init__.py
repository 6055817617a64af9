"""Upkeep: keeping Gandy's own tables and the application's bounded."""

from __future__ import annotations
