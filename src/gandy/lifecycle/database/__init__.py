"""The swept database: how to reach it, what is in it, and where PostgreSQL and SQLite differ."""

from __future__ import annotations
