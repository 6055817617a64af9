"""The swept database: connections, catalogue, and differences between PostgreSQL and SQLite."""

from __future__ import annotations
