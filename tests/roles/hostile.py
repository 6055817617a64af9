"""Databases in which a stranger has planted objects, and a judge of whether any of them was called."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg

from tests.roles.planting import called, plant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.databases import DatabaseHome

STRANGER = "gandy_test_stranger"
VICTIM = "gandy_test_victim"
MANY = 1_000


class Judge:
    """Sees what was called in a database; its own names are PostgreSQL's."""

    def __init__(self, url: str) -> None:
        self.url = as_role(url, VICTIM)
        self._link = psycopg.connect(url, autocommit=True, options="-c search_path=pg_catalog")

    def run(self, script: str) -> list[tuple[Any, ...]]:
        """Do something as the tests' own role."""
        cursor = self._link.execute(script.encode())
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Nothing planted is called meanwhile, also where it ends with an error."""
        try:
            yield
        finally:
            found = called(self._link)
            assert not found, f"called: {', '.join(found)}"

    def close(self) -> None:
        self._link.close()


def as_role(url: str, role: str) -> str:
    """The same database, reached as another role."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{role}:{role}@{host}").geturl()


def make_role(link: psycopg.Connection[Any], name: str, options: str = "") -> None:
    """Make a role that may log in, unless it is there; roles belong to the server."""
    known = link.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone()
    if known is None:
        link.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}' {options}".encode())


def prepare(url: str) -> None:
    """Let a role that may create in public plant all that it can."""
    with psycopg.connect(url, autocommit=True) as link:
        make_role(link, STRANGER)
        make_role(link, VICTIM, "SUPERUSER")
        link.execute(f"CREATE SCHEMA planted AUTHORIZATION {STRANGER}".encode())
        link.execute("CREATE SCHEMA marks; GRANT ALL ON SCHEMA marks TO PUBLIC")
        link.execute(f"SET ROLE {STRANGER}".encode())
        assert plant(link, "planted") > MANY


@contextmanager
def hostile(home: DatabaseHome, path: str, schema: str = "public") -> Iterator[Judge]:
    """A database in which a stranger has been, in that schema; `path` is where roles look for names."""
    template = home.template("hostile", prepare)
    with home.database(template) as url:
        judge = Judge(url)
        judge.run(f"DROP SCHEMA IF EXISTS {schema}; ALTER SCHEMA planted RENAME TO {schema}")
        ((name,),) = judge.run("SELECT quote_ident(current_database())")
        judge.run(f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC; GRANT CREATE ON DATABASE {name} TO {STRANGER}")
        judge.run(f"ALTER DATABASE {name} SET search_path = {path}")
        try:
            yield judge
        finally:
            judge.close()
