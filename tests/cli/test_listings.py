"""What listings leave out: said on stderr, and printed with --all."""

from __future__ import annotations

import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from gandy.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

APP = """
from gandy import Gandy, every

app = Gandy("billing", "sqlite:///billing.db")


@app.train(max_retries=1)
async def send(number: int) -> int:
    if number > 5:
        raise ValueError(number)
    return number


for place in range(3):
    app.group(f"group-{place}")
    app.schedule(f"nightly-report-{place}", send, place, every(hours=1), group=f"group-{place}")
"""
FILL = """
import asyncio
from billing import app, send


async def fill():
    async with app:
        await app.tick("manifest-manager")
        await app.enqueue_many(send, [1, 2, 3, 7, 8, 9])
        for _ in range(3):
            await app.work(asyncio.Event(), until_idle=True)
        await app.enqueue_many(send, [1, 2, 3])


asyncio.run(fill())
"""
pytestmark = pytest.mark.timeout(120)
ID_OF = {"manifests": "external_id", "groups": "name"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with runs, entries, letters, workers, manifests and groups."""
    folder = tmp_path_factory.mktemp("listings")
    (folder / ".git").mkdir()
    (folder / "billing.py").write_text(APP, encoding="utf-8")
    (folder / "fill.py").write_text(FILL, encoding="utf-8")
    subprocess.run([sys.executable, "fill.py"], cwd=folder, check=True, capture_output=True)
    return folder


def call(folder: Path, *words: str) -> Result:
    """Call the command line on the database; it takes rows of an application that it does not import."""
    url = f"sqlite:///{folder}/billing.db"
    runner = CliRunner(catch_exceptions=False)
    return runner.invoke(main, ["--database", url, "--owner", "billing", *words], prog_name="gandy")


def listed(folder: Path, *words: str) -> tuple[list[dict[str, Any]], str]:
    done = call(folder, *words, "--json")
    assert done.exit_code == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows, done.stderr


@pytest.mark.parametrize(
    ("noun", "following"),
    [
        ("runs", "--before"),
        ("queue", "--before"),
        ("dead-letters", "--before"),
        ("manifests", "--after"),
        ("groups", "of 4"),
        ("workers", "of 3"),
    ],
)
def test_a_listing_that_is_cut_says_so_and_all_prints_the_rest(
    noun: str, following: str, folder: Path
) -> None:
    few, said = listed(folder, noun, "list", "--limit", "2")
    whole, silence = listed(folder, noun, "list", "--all")
    exactly, nothing = listed(folder, noun, "list", "--limit", str(len(whole)))

    assert len(few) == 2 < len(whole)
    assert "These are the first 2" in said
    assert following in said
    assert (silence, nothing) == ("", "")
    ids = [row[ID_OF.get(noun, "id")] for row in whole]
    assert [row[ID_OF.get(noun, "id")] for row in (*few, *exactly)] == [*ids[:2], *ids]
    if "--" in following:
        assert f"or {following} {ids[1]}." in said
        assert listed(folder, noun, "list", following, str(ids[1]))[0] == whole[2:]


def test_limit_and_all_exclude_each_other(folder: Path) -> None:
    done = call(folder, "runs", "list", "--limit", "3", "--all")

    assert (done.exit_code, done.stdout) == (2, "")
    assert "exclude each other" in done.stderr


def test_runs_of_gandys_own_trains_are_listed_only_on_request(folder: Path) -> None:
    usual = {run["train"] for run in listed(folder, "runs", "list")[0]}
    every = {run["train"] for run in listed(folder, "runs", "list", "--admin")[0]}
    named = {run["train"] for run in listed(folder, "runs", "list", "--train", "ManifestManagerTrain")[0]}

    assert usual == {"send"}
    assert {"send", "ManifestManagerTrain"} <= every
    assert named == {"ManifestManagerTrain"}


def test_a_log_that_is_cut_says_so(folder: Path) -> None:
    (run, *_), _ = listed(folder, "runs", "list", "--admin", "--limit", "1")
    done = call(folder, "runs", "logs", str(run["id"]), "--limit", "1")

    assert done.exit_code == 0
    assert ("These are the first 1 lines" in done.stderr) is (len(done.stdout.splitlines()) > 2)


def at_a_terminal(folder: Path, width: int, *words: str) -> str:
    """What a terminal of this width shows, without its control sequences."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "gandy", "--app", "billing:app", *words],
        cwd=folder,
        env={**environment, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    shown = b""
    while part := _read(ours):
        shown += part
    os.close(ours)
    _, said = process.communicate(timeout=50)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m|\r", "", shown.decode()) + said.decode()


def _read(channel: int) -> bytes:
    try:
        return os.read(channel, 4096)
    except OSError:  # how a terminal says that the other side is gone
        return b""


@pytest.mark.parametrize("width", [80, 50])
def test_a_narrow_terminal_loses_columns_but_no_part_of_an_id(width: int, folder: Path) -> None:
    workers, _ = listed(folder, "workers", "list")
    manifests, _ = listed(folder, "manifests", "list")
    shown = at_a_terminal(folder, width, "workers", "list") + at_a_terminal(
        folder, width, "manifests", "list"
    )

    assert max(map(len, shown.split("Left out")[0].splitlines())) <= width
    assert all(worker["id"] in shown for worker in workers)
    assert all(manifest["external_id"] in shown for manifest in manifests)
    assert "Left out for want of room:" in shown
    assert "longest stall" in shown
