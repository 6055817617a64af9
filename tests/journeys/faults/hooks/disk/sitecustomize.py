"""A disk that is full for as long as a file says so: SQLite itself then refuses to make its file larger."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

FULL = Path(os.environ["WITNESS"]).with_name("disk-is-full")
UNLIMITED = 1_073_741_823

_connect = sqlite3.connect


def _limited(*arguments: Any, factory: type[Any] = sqlite3.Connection, **options: Any) -> Any:  # noqa: ANN401
    class Limited(factory):  # type: ignore[misc]
        """Looks at the disk before each transaction."""

        def execute(self, sql: str, *parameters: Any) -> Any:  # noqa: ANN401 whatever sqlite3 takes
            if sql.startswith("BEGIN"):
                # a limit below the size is the size: no page more
                super().execute(f"PRAGMA max_page_count = {1 if FULL.exists() else UNLIMITED}")
            return super().execute(sql, *parameters)

    return _connect(*arguments, factory=Limited, **options)


sqlite3.connect = _limited
