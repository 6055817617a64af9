from __future__ import annotations

from tests.support.worlds import migrated_url, world

__all__ = ["migrated_url", "world"]
