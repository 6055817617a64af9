"""A disk of PostgreSQL that can be full: a real one where this process may mount it, else its error.

As root the tables of Gandy move to a tablespace on a small file system in memory; a file then takes all its
room, so that the server itself runs into ENOSPC. Without that right, triggers raise the same SQLSTATE (53100)
at every write, which is all that a client can see of it.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from tests.support.postgres import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.postgres import ThrowawayServer

MEGABYTES: Final = 64
BLOCK: Final = bytes(1 << 20)
TABLES: Final = b"""
SELECT relname FROM pg_class WHERE relnamespace = 'gandy'::regnamespace AND relkind = 'r' ORDER BY 1
"""
RAISE: Final = b"""
CREATE FUNCTION public.no_space() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$
"""


@dataclass(frozen=True, slots=True)
class MountedDisk:
    """A file system of its own."""

    folder: Path

    @contextmanager
    def full(self) -> Iterator[None]:
        """Take all its room for the length of a block."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(BLOCK)
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * 512)
        try:
            yield
        finally:
            filler.unlink()


@dataclass(frozen=True, slots=True)
class PretendedDisk:
    """The server's error, raised by triggers."""

    url: str

    @contextmanager
    def full(self) -> Iterator[None]:
        """Refuse every write for the length of a block."""
        with psycopg.connect(self.url) as connection:
            connection.execute(RAISE)
            for table in _tables(connection):
                connection.execute(
                    sql.SQL(
                        "CREATE TRIGGER no_space BEFORE INSERT OR UPDATE ON gandy.{} "
                        "FOR EACH STATEMENT EXECUTE FUNCTION public.no_space()"
                    ).format(sql.Identifier(table))
                )
        try:
            yield
        finally:
            with psycopg.connect(self.url) as connection:
                connection.execute(b"DROP FUNCTION public.no_space() CASCADE")


@contextmanager
def small_disk(server: ThrowawayServer, url: str) -> Iterator[MountedDisk | PretendedDisk]:
    """Put the tables that jobs write on a small disk, and back."""
    folder = server.folder / "small"
    if not _mount(folder):
        yield PretendedDisk(url)
        return
    try:
        _give_to_server(folder)
        (folder / "space").mkdir()
        _give_to_server(folder / "space")
        _move(url, folder / "space")
        yield MountedDisk(folder)
    finally:
        _move_back(url)
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S607


def _mount(folder: Path) -> bool:
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        return False
    options = ["-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    done = subprocess.run(["mount", *options], capture_output=True, check=False)  # noqa: S607
    return done.returncode == 0


def _give_to_server(folder: Path) -> None:
    owner = Owner.needed()
    if owner is not None:
        os.chown(folder, owner.user, owner.group)


def _move(url: str, place: Path) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(str(place))))
        for table in _tables(connection):
            _put(connection, table, "small")


def _move_back(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for table in _tables(connection):
            _put(connection, table, "pg_default")
        connection.execute(b"DROP TABLESPACE IF EXISTS small")


def _put(connection: psycopg.Connection, table: str, space: str) -> None:
    connection.execute(
        sql.SQL("ALTER TABLE gandy.{} SET TABLESPACE {}").format(sql.Identifier(table), sql.Identifier(space))
    )


def _tables(connection: psycopg.Connection) -> list[str]:
    return [row[0] for row in connection.execute(TABLES).fetchall()]
