"""Database URLs: which database, where, and how to show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from psycopg.conninfo import conninfo_to_dict

from gandy.errors import DatabaseUrlError
from gandy.settings import mask_url

if TYPE_CHECKING:
    from gandy.store.statements import Dialect

_POSTGRES = frozenset({"postgresql", "postgres"})


def dialect_of(url: str) -> Dialect:
    """Tell which database a URL means."""
    scheme = urlsplit(url).scheme
    if scheme in _POSTGRES:
        return "postgres"
    if scheme == "sqlite":
        return "sqlite"
    raise DatabaseUrlError(mask_url(url), f"{scheme or 'no'} scheme is not supported")


def sqlite_path(url: str) -> Path:
    """Find the file of a SQLite URL: three slashes for a relative path, four for an absolute one."""
    rest = url.removeprefix("sqlite://")
    if not rest.startswith("/") or rest in {"/", "//"} or rest == "/:memory:":
        raise DatabaseUrlError(url, "a SQLite database needs a file, shared by every connection")
    return Path(unquote(rest.removeprefix("/")))


def identity_of(url: str) -> str:
    """Name the database that a URL leads to, alike for every user, password and way to write it."""
    if dialect_of(url) == "sqlite":
        return str(sqlite_path(url.partition("?")[0]).resolve())
    given = conninfo_to_dict(url)
    where = [str(given.get(key) or "").lower() for key in ("host", "hostaddr", "service")]
    return json.dumps([*where, str(given.get("port") or 5432), given.get("dbname") or given.get("user")])


def table_name(url: str, table: str) -> str:
    """Say under which name one of Gandy's tables is found in a database."""
    return table if dialect_of(url) == "sqlite" else f"gandy.{table}"


def database_file(url: str) -> Path | None:
    """Find the file that a database lives in; None where a server keeps it."""
    return sqlite_path(url) if dialect_of(url) == "sqlite" else None
