from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.cli.process import PATIENCE, read_until, run_gandy

if TYPE_CHECKING:
    from pathlib import Path


def test_the_demo_ends_by_itself_and_prints_what_happened(tmp_path: Path) -> None:
    done = run_gandy(tmp_path, "demo", "--seconds", "2")

    assert done.returncode == 0, done.stderr
    for word in ("CloseMonth", "completed", "import_feed", "failed", "crawl_site", "cancelled", "LOG LINES"):
        assert word in done.stdout
    assert "load_invoices -> sum_up -> write_report" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_runs_of_the_demo_stay_in_the_database_with_timings_and_lines(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'demo.db'}"
    done = run_gandy(tmp_path, "--database", url, "demo", "--seconds", "2", "--json")
    assert done.returncode == 0, done.stderr
    told = {(row["train"], row["state"]): row["runs"] for row in json.loads(done.stdout)["trains"]}

    def ask(*arguments: str) -> list[dict[str, object]]:
        answer = run_gandy(tmp_path, "--database", url, "--all-owners", "runs", *arguments, "--json")
        found: list[dict[str, object]] = json.loads(answer.stdout)
        return found

    completed = ask("list", "--train", "CloseMonth", "--limit", "1000")
    assert len(completed) == told["CloseMonth", "completed"]
    assert len(ask("list", "--state", "failed")) == told["import_feed", "failed"]
    assert len(ask("list", "--state", "cancelled")) == told["crawl_site", "cancelled"] == 1
    whole = [
        json.loads(
            run_gandy(tmp_path, "--database", url, "--all-owners", "runs", "show", id_, "--json").stdout
        )
        for id_ in (str(run["id"]) for run in completed[-2:])
    ]
    month = next(run for run in whole if run["input"]["invoices"])  # one of the first two has none
    junctions = [junction["junction"] for junction in month["junctions"]]
    assert junctions == ["load_invoices", "sum_up", "write_report"]
    lines = [str(line["message"]) for line in ask("logs", str(month["id"]))]
    assert lines[-1].startswith("the sum is")


def test_the_demo_ends_when_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gandy", "demo", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            if "completed" in line:
                break
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=50)

    assert process.returncode == 0, rest
    assert json.loads(out)["trains"]
    assert "Traceback" not in rest


def test_at_a_terminal_the_demo_keeps_the_dashboard_in_sight(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'demo.db'}"
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gandy", "--database", url, "demo", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "COLUMNS": "400"}
    ) as process:
        os.close(theirs)
        shown = read_until(ours, b"runs/s").decode()
        opened = run_gandy(tmp_path, "--database", url, "--owner", "demo", "open", "--print")
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    os.close(ours)

    address = re.search(r"dashboard: (http://127\.0\.0\.1:\d+/)", shown)
    assert address is not None, shown
    assert f"{address[0]} opens logged in by:\r\ngandy --database {url} --owner demo open\r\n" in shown
    assert opened.stdout.startswith(f"{address[1]}login?code="), opened.stderr
