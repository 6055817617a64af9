"""PgBouncer in front of a throwaway server: transaction mode, and the package's defaults for all else."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from tests.support.postgres import USER, Owner
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import ThrowawayServer

ROOT = Path(__file__).resolve().parents[2]
PORT = 5432  # as the server's: the socket has the same name in another folder
SETTINGS = """
[databases]
* = host={server} user={user}

[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
listen_port = {port}
auth_type = any
pool_mode = transaction
pidfile = {folder}/pid
logfile = {folder}/log
"""


def find_program() -> str:
    """The program; where it is missing a test is skipped on a laptop, and fails in continuous integration."""
    names = (
        os.environ.get("GANDY_TEST_PGBOUNCER", ""),
        "pgbouncer",
        "/usr/sbin/pgbouncer",
        str(ROOT / ".cache" / "pgbouncer" / "run"),
    )
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        missing = "no PgBouncer: run `make pooler`, or name one by GANDY_TEST_PGBOUNCER"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@dataclass(slots=True)
class PgBouncer:
    """One pooler, which a test may restart."""

    program: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def url(self, url: str) -> str:
        """The same database, by way of the pooler."""
        return urlsplit(url)._replace(query=f"host={quote(str(self.folder))}").geturl()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        owner = Owner.needed()
        self.process = subprocess.Popen(
            [self.program, "--quiet", str(self.folder / "pgbouncer.ini")],
            user=None if owner is None else owner.user,
            group=None if owner is None else owner.group,
            extra_groups=None if owner is None else [],
            cwd="/",
        )
        wait_until(self._answers, "PgBouncer answers")

    def stop(self) -> None:
        """End it at once, with every connection."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        for left in (*self.folder.glob(".s.PGSQL.*"), self.folder / "pid"):
            left.unlink(missing_ok=True)

    def restart(self) -> None:
        """Cut every connection, and take new ones."""
        self.stop()
        self.start()

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text(errors="replace")
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(
                f"postgresql://{USER}@/postgres?host={quote(str(self.folder))}", connect_timeout=5
            ).close()
            return True
        return False


@contextlib.contextmanager
def running_pgbouncer(server: ThrowawayServer) -> Iterator[PgBouncer]:
    """Run a pooler in front of a server."""
    folder = Path(tempfile.mkdtemp(prefix="gandy-pgb-"))
    owner = Owner.needed()
    if owner is not None:
        folder.chmod(0o755)
        os.chown(folder, owner.user, owner.group)
    settings = SETTINGS.format(folder=folder, server=server.folder, port=PORT, user=USER)
    (folder / "pgbouncer.ini").write_text(settings, encoding="ascii")
    pooler = PgBouncer(find_program(), folder)
    pooler.start()
    try:
        yield pooler
    finally:
        pooler.stop()
        shutil.rmtree(folder, ignore_errors=True)
