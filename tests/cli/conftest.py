from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from gandy.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class Gandy:
    """The command line, called in the current folder."""

    def __call__(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: str | None = None
    ) -> Result:
        runner = CliRunner(catch_exceptions=False)
        return runner.invoke(main, arguments, env=env, input=stdin, prog_name="gandy")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a project of its own, and an environment that says nothing to Gandy."""
    for name in [name for name in os.environ if name.startswith("GANDY_")]:
        monkeypatch.delenv(name)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def gandy(folder: Path) -> Gandy:
    """The command line, in a folder of the test's own."""
    assert folder.is_dir()
    return Gandy()


@pytest.fixture
def imports() -> Iterator[None]:
    """Whatever a test imports is forgotten after it."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if not name.startswith("gandy"):
            del sys.modules[name]
