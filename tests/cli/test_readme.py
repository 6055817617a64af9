"""Every command of the README does what it says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
INSTALLING = ("python3 -m venv .venv", ". .venv/bin/activate", "pip install 'gandy[all]'")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(text: str) -> list[str]:
    lines = [line.partition("  #")[0].strip() for block in blocks(text, "sh") for line in block.splitlines()]
    return [line for line in lines if line and line not in INSTALLING]


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GANDY_")}
    programs = os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", "")])
    return {**inherited, "PATH": programs, "GANDY_WEB_PORT": "0"}


def run(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def run_and_interrupt(command: str, folder: Path, *, until: Callable[[], bool]) -> None:
    """Start a command that serves, wait until it is up and the condition holds, and end it."""
    with subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command}"], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if " is up" in line)
        wait_until(lambda: until() or process.poll() is not None, "it has done its work")
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=50)

    assert process.returncode == 0, said + rest


def test_the_commands_for_make_exist() -> None:
    wanted = [command for command in commands(README) if command.startswith("make ")]
    assert wanted == ["make demo", "make test"]

    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {command.split()[1] for command in wanted} <= targets


def test_the_example_of_the_readme_is_short_and_its_commands_work(tmp_path: Path) -> None:
    (example,) = blocks(README, "python")
    (tmp_path / "billing.py").write_text(example, encoding="utf-8")
    code = [line for line in example.splitlines() if line.strip()]
    assert len(code) <= 20

    enqueue, work, listing, up = (command for command in commands(README) if not command.startswith("make "))
    run(enqueue, tmp_path)
    run(work, tmp_path)
    assert re.search(r"BillOrder +completed", run(listing, tmp_path))
    run_and_interrupt(up, tmp_path, until=lambda: "sample" in run(listing, tmp_path))
    assert "sample" in run(listing, tmp_path)


def test_the_commands_of_the_billing_example_work(tmp_path: Path) -> None:
    example = ROOT / "examples" / "billing"
    shutil.copy(example / "billing.py", tmp_path)
    said = [
        run(command, tmp_path) for command in commands((example / "README.md").read_text(encoding="utf-8"))
    ]

    assert "load_orders -> write_invoice -> send_invoice" in said[0]
    assert said[1].strip() == "3285"
    assert re.search(r"BillMonth +completed", said[2])
