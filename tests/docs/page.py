"""A page of the documentation, followed as a reader would: files written and commands given in order."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
WRITTEN: Final = {"python": "# ", "toml": "# ", "sql": "-- "}
PATIENCE: Final = 100
ENVIRONMENT: Final = ("python3 -m venv .venv", ". .venv/bin/activate")
PORT: Final = "8000"  #: of a page's own web server; a free one takes its place
SERVES: Final = (" is up", "Uvicorn running on")

_BLOCK = re.compile(r"^```(?P<language>\S*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_REMARK = re.compile(r"\s{2,}# (?P<words>.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """What the first line calls it: `# shop.py`, `-- tables.sql`."""
        first = self.text.partition("\n")[0]
        found = re.fullmatch(re.escape(WRITTEN[self.language]) + r"((?:\w+/)?\w+\.\w+)", first)
        return found[1] if found else None


@dataclass(frozen=True, slots=True)
class Command:
    """One line that a reader types; the remark behind it may say how it ends."""

    line: str
    remark: str

    @property
    def exit_code(self) -> int:
        """0, unless the page says `# exits 1`."""
        found = re.match(r"exits (\d)", self.remark)
        return int(found[1]) if found else 0


def free_port() -> int:
    """Find a port that nothing uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def blocks(text: str) -> list[Block]:
    """Every fenced block of a page, in order."""
    return [Block(found["language"], found["text"]) for found in _BLOCK.finditer(text)]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a block; a line that ends with a backslash goes on in the next."""
    for line in block.text.replace("\\\n", " ").splitlines():
        remark = _REMARK.search(line)
        command = _REMARK.sub("", line).strip()
        if command:
            yield Command(command, remark["words"] if remark else "")


def pattern(shown: str) -> re.Pattern[str]:
    """What a line that a page shows must be found by: its cells in their order; numbers differ."""
    cells = [re.sub(r"\d+", r"\\d+", re.escape(cell)) for cell in re.split(r"\s{2,}", shown.strip())]
    return re.compile(".*".join(cells))


@dataclass(slots=True)
class Reader:
    """Somebody who follows a page to the letter in an empty folder."""

    folder: Path
    postgres_url: str | None = None
    programs: Path | None = None  #: a folder that is looked through first
    environment: dict[str, str] = field(default_factory=dict)
    said: str = ""
    port: int = 0
    _serving: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GANDY_")}
        folders = [str(Path(sys.executable).parent), inherited.get("PATH", "")]
        programs = os.pathsep.join(folders if self.programs is None else [str(self.programs), *folders])
        self.port = free_port()
        self.environment = {**inherited, "PATH": programs, "COLUMNS": "200", "GANDY_WEB_PORT": "0"}

    def follow(self, text: str) -> None:
        """Do everything that the page says."""
        with self._serving:
            for block in blocks(text):
                self._take(block)

    def _take(self, block: Block) -> None:
        if block.language in WRITTEN:
            assert block.file_name is not None, f"the block does not name its file:\n{block.text}"
            text = block.text.replace(f":{PORT}/", f":{self.port}/")
            (self.folder / block.file_name).write_text(text, encoding="utf-8")
        elif block.language == "sh":
            self.said = ""
            for command in commands(block):
                self._give(command)
        else:
            assert block.language == "text", f"nobody runs a block of {block.language!r}:\n{block.text}"
            self._compare(block.text)

    def _compare(self, shown: str) -> None:
        missing = [
            line for line in shown.splitlines() if line.strip() and not pattern(line).search(self.said)
        ]
        assert missing == [], self.said

    def _give(self, command: Command) -> None:
        word, _, rest = command.line.partition(" ")
        if word == "cd":
            self.folder /= rest
        elif word == "export":
            self._export(rest)
        elif word == "pip":
            assert rest.startswith("install ")
        elif command.line in ENVIRONMENT:
            pass  # the tests have one
        elif command.line.endswith(" &"):
            line = command.line.removesuffix(" &")
            self._serve(line.replace(f"--port {PORT}", f"--port {self.port}"))
        elif " up " in f"{command.line} " and word == "gandy":
            with ExitStack() as stack:
                self._serve(command.line, stack)
        else:
            self._run(command)

    def _export(self, assignment: str) -> None:
        name, _, value = shlex.split(assignment)[0].partition("=")
        if value.startswith("postgresql://"):
            assert self.postgres_url is not None
            value = self.postgres_url
        self.environment[name] = value

    def _run(self, command: Command) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", command.line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        self.said += done.stdout + done.stderr
        assert done.returncode == command.exit_code, f"{command.line}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr

    def _serve(self, line: str, stack: ExitStack | None = None) -> None:
        """Start what serves, and wait until it says so; it is ended with the page, or with the stack."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}"],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        (stack or self._serving).callback(_end, process, line)
        assert process.stderr is not None
        heard = []
        for said in process.stderr:
            heard.append(said)
            if any(words in said for words in SERVES):
                return
        raise AssertionError(f"{line}\n{''.join(heard)}")


def _end(process: subprocess.Popen[str], line: str) -> None:
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE)
    by_signal = -signal.SIGTERM if line.startswith("uvicorn") else 0
    assert process.returncode == by_signal, f"{line}\n{said}"
