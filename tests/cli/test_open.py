"""`gandy open`, and the link that `gandy up` prints, as a user meets them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.cli.process import run_gandy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a-token-that-is-configured"
APP = 'from gandy import Gandy\n\napp = Gandy("billing", "sqlite:///billing.db")\n'
OPEN = ("--app", "billing:app", "open", "--print")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and a state folder of its own."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "billing.py").write_text(APP, encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@contextmanager
def serving(folder: Path, **variables: str) -> Iterator[str]:
    """Run `gandy up` with the dashboard alone; gives the address that it prints."""
    command = [
        sys.executable,
        "-m",
        "gandy",
        "--app",
        "billing:app",
        "up",
        "--services",
        "web",
        "--port",
        "0",
    ]
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, **variables}, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "the dashboard is at" in line)
        yield re.findall(r"http://\S+", said)[0]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=50)
    assert process.returncode == 0


def sign_in(link: str) -> list[int]:
    """Follow a link as a browser does, look at a page, and follow the link again without the cookie."""
    with httpx.Client() as browser:
        statuses = [
            browser.get(link).status_code,
            browser.get(f"{link.partition('/login')[0]}/runs").status_code,
        ]
    return [*statuses, httpx.get(link).status_code]


def test_up_prints_a_link_that_signs_in_once_and_open_makes_others(folder: Path) -> None:
    with serving(folder) as link:
        opened = run_gandy(folder, *OPEN)
        database = ("--database", f"sqlite:///{folder}/billing.db")
        by_database = run_gandy(folder, *database, "--owner", "billing", "open", "--print")
        links = [link, opened.stdout.strip(), by_database.stdout.strip()]
        unknown = httpx.get(link.partition("/login")[0] + "/api/v1/runs")

        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/login\?code=\S+", link)
        assert len(set(links)) == 3
        assert [sign_in(each) for each in links] == [[303, 200, 401]] * 3
        assert unknown.status_code == 401
    token = next((folder / "state" / "gandy").glob("*.token")).read_text(encoding="utf-8")
    with serving(folder) as again:
        assert sign_in(again) == [303, 200, 401]
    assert token == next((folder / "state" / "gandy").glob("*.token")).read_text(encoding="utf-8")


def test_open_says_what_to_do_where_nothing_runs(folder: Path) -> None:
    done = run_gandy(folder, *OPEN)

    assert (done.returncode, done.stdout) == (1, "")
    assert "gandy up" in done.stderr
    assert not (folder / "billing.db").exists()


def test_with_a_configured_token_no_code_is_printed_and_open_needs_the_token(folder: Path) -> None:
    with serving(folder, GANDY_WEB_TOKEN=TOKEN) as address:
        known = run_gandy(folder, *OPEN, GANDY_WEB_TOKEN=TOKEN)
        other = run_gandy(folder, *OPEN, GANDY_WEB_TOKEN="another-token-entirely")
        unknown = run_gandy(folder, *OPEN)

        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        assert sign_in(known.stdout.strip()) == [303, 200, 401]
        assert sign_in(other.stdout.strip())[0] == 401
        assert unknown.stdout.strip() == address
        assert "Log in with your token" in unknown.stderr


def test_a_start_that_others_could_reach_is_refused_without_a_token(folder: Path) -> None:
    done = run_gandy(folder, "--app", "billing:app", "up", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 refused

    assert done.returncode == 2
    assert "GANDY_WEB_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr
