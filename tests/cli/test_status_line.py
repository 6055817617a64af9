"""`gandy up` at a terminal keeps its last lines for the status; in a pipe there is nothing but the log."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import click
import pytest

from gandy.cli.status_line import StatusLine, describe, details
from gandy.desk.explain import Concern, Count
from gandy.desk.home import Glance, LiveRun, Overview
from tests.cli.process import PATIENCE, read_until

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

APP = """
from gandy import Gandy

app = Gandy("billing", "sqlite:///billing.db")
"""
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "billing.py").write_text(APP)
    (tmp_path / "gandy.toml").write_text('app = "billing:app"\n')
    return tmp_path


def up(folder: Path, stderr: int, *options: str) -> subprocess.Popen[bytes]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GANDY_")}
    return subprocess.Popen(
        [sys.executable, "-m", "gandy", *options, "up", "--port", "0"],
        cwd=folder,
        env={**inherited, "COLUMNS": "120"},
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )


def test_at_a_terminal_the_last_line_tells_how_it_fares_and_is_gone_in_the_end(project: Path) -> None:
    ours, theirs = pty.openpty()
    process = up(project, theirs)
    os.close(theirs)
    try:
        shown = read_until(ours, b"dead letters") + read_until(ours, b"gandy open\r\n")
        process.send_signal(signal.SIGINT)
        rest = read_until(ours, b"is down")
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)

    assert b"0.0 runs/s | 0 in progress | 0 ready | 0 waiting | 0 dead letters" in shown
    assert re.search(rb"dashboard: http://127\.0\.0\.1:\d+/\s", shown)
    assert b"opens logged in by:\r\ngandy open\r\n" in shown
    assert b"b''" not in shown
    assert b"billing stops: runs in progress get 30s to end; a second Ctrl-C ends them at once" in rest
    assert shown.count(b"billing is up") == 1
    assert b"runs/s" not in rest.rpartition(b"billing is down")[0].rpartition(b"\x1b[K")[2]
    assert process.returncode == 0


def test_the_line_that_opens_the_dashboard_names_the_application_as_the_call_did(project: Path) -> None:
    (project / "gandy.toml").unlink()
    ours, theirs = pty.openpty()
    process = up(project, theirs, "--app", "billing:app")
    os.close(theirs)
    try:
        shown = read_until(ours, b" open\r\n")
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)

    assert b"opens logged in by:\r\ngandy --app billing:app open\r\n" in shown


def test_bytes_are_refused_as_by_any_text_stream() -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    line = StatusLine(terminal)

    click.echo("a line", file=cast("TextIO", line))

    terminal.seek(0)
    assert terminal.read() == "\r\x1b[Ka line\n"


def test_in_a_pipe_there_is_the_log_and_nothing_else(project: Path) -> None:
    with up(project, subprocess.PIPE) as process:
        assert process.stderr is not None
        shown = read_until(process.stderr.fileno(), b"is up")
        process.send_signal(signal.SIGINT)
        shown += process.stderr.read()

    assert process.returncode == 0
    assert b"billing is down" in shown
    assert b"\x1b" not in shown
    assert b"runs/s" not in shown


def test_what_others_write_goes_above_the_line() -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    line = StatusLine(terminal)

    line.show("3 ready")
    line.write("a log line\n")
    line.show("")

    terminal.seek(0)
    clear = "\r\x1b[K"
    assert terminal.read() == f"{clear}3 ready{clear}a log line\n3 ready{clear}"


def test_a_status_of_several_lines_is_cleared_from_the_last_one_up() -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    line = StatusLine(terminal)

    line.show("in progress: send 3\n3 ready")
    line.write("a log ")
    line.write("line\n")
    line.show("")

    terminal.seek(0)
    clear, above = "\r\x1b[K", "\x1b[A\x1b[K"
    status = "in progress: send 3\n3 ready"
    assert terminal.read() == f"{clear}{status}{clear}{above}a log line\n{status}{clear}{above}"


def test_a_line_that_is_wider_than_the_terminal_goes_on_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "21")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    line = StatusLine(terminal)

    line.show("opens by: gandy --owner demo open")
    line.show("")

    terminal.seek(0)
    assert terminal.read() == "\r\x1b[Kopens by: gandy\n--owner demo open\r\x1b[K\x1b[A\x1b[K"


def test_what_runs_and_what_needs_a_person_is_told_with_bounds() -> None:
    concerns = tuple(Concern(kind="x", said=f"trouble {n}", place="/", is_urgent=True) for n in range(5))
    runs = (a_run(1, "send"), a_run(2, "close"), a_run(3, "send"))

    assert list(details(an_overview(runs, running=9, concerns=concerns))) == [
        "in progress: send 2, close 1...",
        "look at: trouble 0",
        "look at: trouble 1",
        "look at: trouble 2",
        "and 2 more: gandy doctor",
    ]
    assert list(details(an_overview((), running=0, concerns=()))) == []


def a_run(run_id: int, train: str) -> LiveRun:
    return LiveRun(
        id=run_id,
        train=train,
        manifest=None,
        attempt=1,
        start_time=NOW,
        running_for=timedelta(seconds=1),
        junction=None,
        progress_done=None,
        progress_total=None,
        worker_id=None,
        cancellation_requested=False,
    )


def an_overview(runs: tuple[LiveRun, ...], *, running: int, concerns: tuple[Concern, ...]) -> Overview:
    nothing = Count(value=0)
    return Overview(
        now=NOW,
        running=Count(value=running),
        pending=nothing,
        ready=nothing,
        later=nothing,
        held=nothing,
        held_by=(),
        unknown=nothing,
        turns=nothing,
        awaiting_letters=nothing,
        workers=1,
        slots=1,
        busy=1,
        longest_wait=None,
        live_runs=runs,
        concerns=concerns,
    )


def test_a_count_that_ended_early_says_so() -> None:
    found = Glance(
        running=Count(value=3),
        ready=Count(value=10_000, is_at_least=True),
        waiting=Count(value=0),
        awaiting_letters=Count(value=1),
    )

    assert describe(found, 1234.56) == (
        "1,234.6 runs/s | 3 in progress | 10,000+ ready | 0 waiting | 1 dead letters"
    )
