"""Homes for test databases: fresh ones, and clones of one that was prepared once."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from gandy.store.statements import parse_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIGRATED = "migrated"
STATEMENTS = parse_statements(Path(__file__).with_name("recycling.sql").read_text(encoding="utf-8"))
#: What tells whether a database is as it was; of an empty one all is dropped first.
_SEEN_BY: dict[str | None, str] = {None: "left", MIGRATED: "catalogue"}


class DatabaseHome(ABC):
    """Where databases are made for tests, quickly: prepare a template once, clone it for every test."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._templates: dict[str, str] = {}
        self._clean: dict[str | None, list[str]] = {}

    def template(self, name: str, prepare: Callable[[str], None]) -> str:
        """Prepare a template by its URL on the first call; `prepare` must leave no connection open."""
        if name not in self._templates:
            database = self._name(name)
            self._create(database, None)
            prepare(self.url(database))
            self._templates[name] = database
        return name

    @contextlib.contextmanager
    def database(self, template: str | None = None) -> Iterator[str]:
        """Yield the URL of a fresh database, empty or like the template, and clean or drop it afterwards."""
        clean = self._clean.setdefault(template, [])
        database = clean.pop() if clean else self._make(template)
        try:
            yield self.url(database)
        finally:
            if template in {None, MIGRATED} and self._clean_up(database, template):
                clean.append(database)
            else:
                self._drop(database)

    def _make(self, template: str | None) -> str:
        database = self._name("test")
        self._create(database, None if template is None else self._templates[template])
        return database

    def _clean_up(self, database: str, template: str | None) -> bool:  # noqa: ARG002 files are copied faster
        """Make a database as it was before its test, and say whether that could be done."""
        return False

    @abstractmethod
    def url(self, database: str) -> str:
        """The URL under which a database of this home is reached."""

    @abstractmethod
    def _create(self, database: str, template: str | None) -> None: ...

    @abstractmethod
    def _drop(self, database: str) -> None: ...

    def _name(self, purpose: str) -> str:
        return f"gandy_{purpose}_{os.getpid()}_{next(self._numbers)}"


class SqliteHome(DatabaseHome):
    """A folder of SQLite files."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def url(self, database: str) -> str:
        return f"sqlite:///{self._file(database)}"

    def _file(self, database: str) -> Path:
        return self._folder / f"{database}.db"

    def _create(self, database: str, template: str | None) -> None:
        if template is not None:
            shutil.copyfile(self._file(template), self._file(database))

    def _drop(self, database: str) -> None:
        for file in self._folder.glob(f"{database}.db*"):
            file.unlink(missing_ok=True)


class PostgresHome(DatabaseHome):
    """A PostgreSQL server, reached as somebody who may create databases."""

    def __init__(self, dsn: str, label: str, *, copies_files: bool = False) -> None:
        super().__init__()
        self.dsn = dsn
        self.label = label
        self._catalogues: dict[str | None, object] = {}
        # Without fsync a copy of the files is several times faster than one through the log.
        self._clone = "CREATE DATABASE {} TEMPLATE {}" + (" STRATEGY FILE_COPY" if copies_files else "")

    def url(self, database: str) -> str:
        return urlsplit(self.dsn)._replace(path=f"/{database}").geturl()

    def close(self) -> None:
        """Drop the templates; a server of our own is thrown away whole instead."""
        for database in self._templates.values():
            self._drop(database)
        self._templates.clear()

    def _create(self, database: str, template: str | None) -> None:
        self._command(self._clone, database, template or "template0")

    def _make(self, template: str | None) -> str:
        database = super()._make(template)
        if template in _SEEN_BY and template not in self._catalogues:
            with psycopg.connect(self.url(database), autocommit=True) as connection:
                self._catalogues[template] = _catalogue(connection, template)
        return database

    def _clean_up(self, database: str, template: str | None) -> bool:
        """Empty a database: a new one takes ten times as long."""
        if template not in self._catalogues:
            return False
        try:
            with psycopg.connect(self.url(database), autocommit=True) as connection:
                connection.execute(STATEMENTS["hang_up"].encode())
                if template is None:
                    connection.execute(STATEMENTS["clear"].encode())
                if _catalogue(connection, template) != self._catalogues[template]:
                    return False
                if template == MIGRATED:
                    connection.execute(STATEMENTS["wipe"].encode())
        except psycopg.Error:
            return False
        return True

    def _drop(self, database: str) -> None:
        self._command("DROP DATABASE IF EXISTS {} WITH (FORCE)", database)

    def _command(self, command: str, *names: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL(command).format(*map(sql.Identifier, names)))


def _catalogue(connection: psycopg.Connection[Any], template: str | None) -> object:
    return connection.execute(STATEMENTS[_SEEN_BY[template]].encode()).fetchone()
