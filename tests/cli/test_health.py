"""`gandy health`, as a probe calls it: beside processes of the same application."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cli.process import run_gandy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = """
from gandy import Gandy

app = Gandy("billing", "sqlite:///billing.db", worker={"lease_for": "3s", "heartbeat_every": "500ms"})


@app.train
async def send(number: int) -> None: ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and a state folder of its own."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "billing.py").write_text(APP, encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command of services; gives the process once it says that it is up."""
    command = [sys.executable, "-m", "gandy", "--app", "billing:app", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=dict(os.environ), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert any(" is up" in line for line in process.stderr)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=50)


def health(folder: Path) -> subprocess.CompletedProcess[str]:
    return run_gandy(folder, "--app", "billing:app", "health", "--json")


def test_without_a_process_the_answer_is_no(folder: Path) -> None:
    done = health(folder)

    assert (done.returncode, json.loads(done.stdout)) == (1, [])
    assert "no process with a worker or the dashboard of this application runs on" in done.stderr


@pytest.mark.timeout(120)
def test_a_process_with_a_worker_alone_answers_while_it_renews_its_lease(folder: Path) -> None:
    with running(folder, "up", "--services", "worker") as process:
        wait_until(lambda: health(folder).returncode == 0, "the worker is registered", within=60)
        done = health(folder)
        assert json.loads(done.stdout) == [{"pid": process.pid, "answers_by": "lease", "problem": None}]

        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: health(folder).returncode == 1, "its lease expires", within=50)
        assert f"process {process.pid}: has not renewed the lease of its worker for" in health(folder).stderr


@pytest.mark.timeout(120)
def test_a_worker_that_crashed_is_no_longer_a_process_of_this_host(folder: Path) -> None:
    with running(folder, "up", "--services", "worker") as process:
        process.kill()
        process.wait()
        wait_until(lambda: health(folder).returncode == 1, "its lease expires", within=50)

    assert json.loads(health(folder).stdout) == []


@pytest.mark.timeout(120)
def test_a_process_without_a_worker_answers_by_its_dashboard(folder: Path) -> None:
    with running(folder, "up", "--services", "web", "--port", "0") as process:
        wait_until(lambda: health(folder).returncode == 0, "the dashboard listens", within=60)
        done = health(folder)

        assert json.loads(done.stdout) == [{"pid": process.pid, "answers_by": "http", "problem": None}]


def test_a_database_that_cannot_be_reached_is_the_reason(folder: Path) -> None:
    url = "postgresql://nothing@127.0.0.1:1/nothing"
    done = run_gandy(folder, "--app", "billing:app", "--database", url, "health")

    assert done.returncode == 1
    assert "cannot reach" in done.stderr
    assert "Traceback" not in done.stderr
