from __future__ import annotations

from tests.support.pasts import migrated_url, past, postgres_past, sqlite_past

__all__ = ["migrated_url", "past", "postgres_past", "sqlite_past"]
