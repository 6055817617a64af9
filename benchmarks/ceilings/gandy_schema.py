"""Gandy's own tables, made from its own migrations, for direct SQL on the very same rows and indexes."""

from __future__ import annotations

from pathlib import Path

import psycopg

MIGRATIONS = Path(__file__).resolve().parents[2] / "src" / "gandy" / "store" / "migrations" / "postgres"
GROUP = "INSERT INTO gandy.manifest_group (owner, name) VALUES ('bench', 'default') RETURNING id"
# Statistics taken while a hot table was empty must not turn a probe into a scan of its dead rows.
HOT_OPTIONS = "-c enable_seqscan=off -c timezone=UTC"


#: The last version in which a live run was a row of its own.
RUN_ROWS = 10


def create_schema(url: str, *, version: int | None = None) -> None:
    """Apply the migrations, every one or up to a version, and make the default group."""
    with psycopg.connect(url, autocommit=True) as connection:
        for migration in sorted(MIGRATIONS.glob("*.sql")):
            if version is None or int(migration.name.partition("_")[0]) <= version:
                connection.execute(migration.read_bytes())
        connection.execute(GROUP)


def connect(url: str) -> psycopg.Connection:
    """A connection for hot statements: each is prepared at its first use."""
    return psycopg.connect(url, autocommit=True, prepare_threshold=0, options=HOT_OPTIONS)


def default_group(connection: psycopg.Connection) -> int:
    """The id of the default group."""
    row = connection.execute("SELECT id FROM gandy.manifest_group WHERE owner = 'bench'").fetchone()
    if row is None:
        message = "the default group is missing: setup was not asked for"
        raise LookupError(message)
    return int(row[0])
