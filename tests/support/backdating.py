"""Letting time pass where the clock is the real one: what was written now was written hours ago."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg

#: How often an hourly job has come due since.
MISSED: Final = 3


def backdate_letters(url: str) -> None:
    """Let every letter have waited for four hours, in which each hourly manifest came due three times."""
    now = datetime.now(UTC)
    letters = "UPDATE dead_letter SET dead_lettered_at = ?"
    cursors = "UPDATE manifest SET next_scheduled_run = ?"
    changes = {letters: now - timedelta(hours=4), cursors: now - timedelta(hours=MISSED - 0.5)}
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            for change, at in changes.items():
                file.execute(change, [at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")])
        return
    with psycopg.connect(url, options="-c search_path=gandy", autocommit=True) as link:
        for change, at in changes.items():
            link.execute(change.replace("?", "%s").encode(), [at])
