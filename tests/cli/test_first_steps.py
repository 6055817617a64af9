"""What a newcomer meets: no settings, mistyped names, a missing extra, a port in use, a read-only file."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.process import run_gandy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Gandy

pytestmark = pytest.mark.timeout(120)

APP = """
from gandy import Gandy, every

app = Gandy("billing", "sqlite:///billing.db")


@app.train
async def send(number: int) -> None: ...


app.group("mail")
app.schedule("nightly-report", send, 1, every(hours=1), group="mail")
"""
BROKEN = """
from gandy import Gandy

app = Gandy("billing", "sqlite:///billing.db")


@app.train
async def send(number: int) -> None:
    raise ValueError("no such address")
"""
HIDING = "import sys\nfor name in {names!r}:\n    sys.modules[name] = None\n"
READING = [
    ("runs", "list"),
    ("manifests", "show", "nightly"),
    ("--all-owners", "queue", "list"),
    ("--owner", "billing", "workers", "list"),
    ("dead-letters", "list"),
]


@pytest.fixture
def project(folder: Path, gandy: Gandy, imports: None) -> Path:
    """A project whose declarations are in its database."""
    assert imports is None
    (folder / "billing.py").write_text(APP, encoding="utf-8")
    assert gandy("--app", "billing:app", "sync").exit_code == 0
    return folder


def call(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_gandy(folder, *words, GANDY_APP="billing:app", **variables)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_in_an_empty_folder_a_command_that_reads_says_so_and_makes_nothing(
    words: tuple[str, ...], folder: Path, gandy: Gandy
) -> None:
    done = gandy(*words)

    assert (done.exit_code, done.stdout) == (2, "")
    assert "no application and no database are configured here" in done.stderr
    assert [path.name for path in folder.iterdir()] == [".git"]


def test_a_database_that_is_not_there_yet_is_not_made_by_reading(project: Path, gandy: Gandy) -> None:
    (project / "billing.db").unlink()
    done = gandy("--app", "billing:app", "runs", "list")

    assert done.exit_code == 2
    assert "there is no database sqlite:///billing.db yet" in done.stderr
    assert not (project / "billing.db").exists()
    enqueued = gandy("--app", "billing:app", "queue", "enqueue", "send", "--input", "1")
    assert enqueued.exit_code == 0, "a job makes it"


@pytest.mark.parametrize(
    ("words", "meant", "code"),
    [
        (("runz", "list"), "'runs'", 2),
        (("manifest", "list"), "'manifests'", 2),
        (("dead-leters", "list"), "'dead-letters'", 2),
        (("runs", "lsit"), "'list'", 2),
        (("manifests", "show", "nightly-reprot"), "nightly-report?", 1),
        (("manifests", "disable", "nightlyreport"), "nightly-report?", 1),
        (("groups", "show", "mial"), "mail?", 1),
        (("queue", "enqueue", "sned", "--input", "1"), "send?", 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_mistyped_name_is_answered_with_the_one_that_was_meant(
    words: tuple[str, ...], meant: str, code: int, project: Path, gandy: Gandy
) -> None:
    assert (project / "billing.db").exists()
    done = gandy("--app", "billing:app", *words)

    assert done.exit_code == code
    assert "did you mean" in done.stderr.lower()
    assert meant in done.stderr


@pytest.mark.parametrize(
    ("extra", "words"),
    [("uvicorn", ("--services", "web")), ("fastapi", ("--services", "worker", "--port", "0"))],
)
def test_a_missing_extra_is_one_line(extra: str, words: tuple[str, ...], project: Path) -> None:
    done = call(project, "up", *words, PYTHONPATH=hidden(project, extra))

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "gandy: the dashboard needs an optional dependency; run: pip install 'gandy[web]'"
    ]


def test_without_the_extra_the_services_start_and_say_what_is_left_out(project: Path) -> None:
    remedy = "the dashboard needs an optional dependency; run: pip install 'gandy[web]'"
    path = hidden(project, "uvicorn")
    environment = {**os.environ, "GANDY_APP": "billing:app", "PYTHONPATH": path}
    with subprocess.Popen(
        [sys.executable, "-m", "gandy", "up"], cwd=project, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if " is up" in line)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=50)

    assert said == f"billing is up: all services but web; {remedy}\n"
    assert call(project, "open", PYTHONPATH=path).stderr == f"gandy: {remedy}\n"
    demo = call(project, "demo", "--seconds", "0.5", PYTHONPATH=path)
    assert (demo.returncode, remedy in demo.stderr.splitlines()) == (0, True)


def test_a_worker_that_is_idle_says_what_it_leaves(project: Path) -> None:
    (project / "billing.py").write_text(BROKEN, encoding="utf-8")
    call(project, "queue", "enqueue", "send", "--input", "1")
    waits = run_gandy(project, "--app", "billing:app", "work", "--until-idle")
    call(project, "queue", "enqueue", "send", "--input", "2", "--max-retries", "1")
    parked = run_gandy(project, "--app", "billing:app", "work", "--until-idle")

    assert waits.returncode == 0
    assert "WARNING gandy.worker: run 1 of send failed: ValueError: no such address" in waits.stderr
    assert "No due work is left; 1 waiting; see: gandy --app billing:app queue list\n" in waits.stderr
    assert parked.returncode == 1
    assert "failed: ValueError: no such address; it is a dead letter now\n" in parked.stderr
    assert "1 job was parked; see: gandy --app billing:app dead-letters list\n" in parked.stderr


def hidden(folder: Path, *names: str) -> str:
    """A folder that makes packages look as if they were not installed."""
    place = folder / "hidden"
    place.mkdir()
    (place / "sitecustomize.py").write_text(HIDING.format(names=names), encoding="utf-8")
    return str(place)


def test_the_dashboard_starts_without_the_extra_for_metrics(project: Path) -> None:
    from_web = "from gandy.web import application, serving; print('imported')"
    done = subprocess.run(
        [sys.executable, "-c", from_web],
        env={**os.environ, "PYTHONPATH": hidden(project, "prometheus_client")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("imported\n", "")


def test_a_port_in_use_is_one_line(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = call(project, "up", "--port", str(port))

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another" in line


@pytest.fixture
def locked(project: Path) -> Iterator[Path]:
    """The database in a folder in which nothing can be written."""
    place = project / "locked"
    place.mkdir()
    shutil.copy(project / "billing.db", place / "billing.db")
    (place / "billing.db").chmod(0o444)
    place.chmod(0o555)
    yield place
    place.chmod(0o755)


def test_a_read_only_file_is_listed_and_a_change_is_refused(locked: Path) -> None:
    url = f"sqlite:///{locked}/billing.db"
    listed = bound_by_permissions("--database", url, "--owner", "billing", "manifests", "list", "--json")
    changed = bound_by_permissions(
        "--database", url, "--owner", "billing", "groups", "set", "mail", "--priority", "3"
    )

    assert (listed.returncode, listed.stderr) == (0, "")
    assert '"nightly-report"' in listed.stdout
    assert changed.returncode == 1
    assert changed.stderr.startswith("gandy: the database is read-only")
    assert len(changed.stderr.splitlines()) == 1


def bound_by_permissions(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line without the privilege of root to pass over permissions."""
    gandy = [sys.executable, "-m", "gandy", *words]
    if os.geteuid() == 0:
        gandy = ["/usr/bin/setpriv", "--bounding-set", "-dac_override,-dac_read_search", *gandy]
    return subprocess.run(gandy, capture_output=True, text=True, check=False)
