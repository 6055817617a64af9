from __future__ import annotations

from tests.support.statements import statements
from tests.support.worlds import migrated_url, postgres_world, world

__all__ = ["migrated_url", "postgres_world", "statements", "world"]
