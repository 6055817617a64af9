"""A database in which very much has happened, filled by a few statements."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

HERE = Path(__file__).parent


def fill(url: str, *, share: int = 1) -> None:
    """Add a million runs and a hundred thousand manifests, or a share of them; again adds what is missing."""
    kind = "sqlite" if url.startswith("sqlite") else "postgres"
    text = (HERE / f"crowd_{kind}.sql").read_text(encoding="utf-8").replace("{share}", str(share))
    if kind == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(text)
    else:
        with psycopg.connect(url, autocommit=True) as link:
            link.execute(text.encode())
