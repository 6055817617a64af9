"""Database URLs of Gandy's own tables: which database, and where its file is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from gandy.errors import DatabaseUrlError
from gandy.settings.urls import read_url

if TYPE_CHECKING:
    from gandy.store.statements import Dialect


def dialect_of(url: str) -> Dialect:
    """Tell which database a URL means."""
    found = read_url(url)
    if found.driver is not None:
        raise DatabaseUrlError(found.shown, f"leave out +{found.driver}: Gandy brings its own driver")
    return found.kind


def sqlite_path(url: str) -> Path:
    """Find the file of a SQLite URL: three slashes for a relative path, four for an absolute one."""
    found = read_url(url)
    if found.kind != "sqlite" or not found.database or found.database in {"/", ":memory:"}:
        raise DatabaseUrlError(found.shown, "a SQLite database needs a file, shared by every connection")
    return Path(found.database)


def identity_of(url: str) -> str:
    """Name the database that a URL leads to, alike for every user, password and way to write it."""
    if dialect_of(url) == "sqlite":
        return str(sqlite_path(url.partition("?")[0]).resolve())
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 a driver that SQLite does not need

    given = conninfo_to_dict(url)
    where = [str(given.get(key) or "").lower() for key in ("host", "hostaddr", "service")]
    return json.dumps([*where, str(given.get("port") or 5432), given.get("dbname") or given.get("user")])


def table_name(url: str, table: str) -> str:
    """Say under which name one of Gandy's tables is found in a database."""
    return table if dialect_of(url) == "sqlite" else f"gandy.{table}"


def database_file(url: str) -> Path | None:
    """Find the file that a database lives in; None where a server keeps it."""
    return sqlite_path(url) if dialect_of(url) == "sqlite" else None
