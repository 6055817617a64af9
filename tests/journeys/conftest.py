from __future__ import annotations

from tests.support.pasts import postgres_past, sqlite_past
from tests.support.worlds import migrated_url, world

__all__ = ["migrated_url", "postgres_past", "sqlite_past", "world"]
