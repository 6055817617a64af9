from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from gandy.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Gandy


def test_init_writes_an_application_and_its_settings(gandy: Gandy, folder: Path) -> None:
    result = gandy("init", "hello")

    assert result.exit_code == 0
    assert sorted(path.name for path in (folder / "hello").iterdir()) == ["app.py", "gandy.toml"]
    assert f"Now, in {folder / 'hello'}:" in result.stderr
    loaded = load_settings(environ={}, directory=folder / "hello")
    assert loaded.app == "app:app"
    assert loaded.settings.database.url == f"sqlite:///{folder / 'hello' / 'gandy.db'}"


def test_the_written_application_has_two_trains_and_a_schedule(gandy: Gandy, folder: Path) -> None:
    assert gandy("init").exit_code == 0

    source = (folder / "app.py").read_text(encoding="utf-8")
    compile(source, "app.py", "exec")
    assert (source.count("@app.train\n"), source.count("@app.register\n"), source.count("app.schedule(")) == (
        1,
        1,
        1,
    )
    assert tomllib.loads((folder / "gandy.toml").read_text(encoding="utf-8"))["app"] == "app:app"


def test_init_overwrites_nothing_and_then_writes_nothing(gandy: Gandy, folder: Path) -> None:
    (folder / "gandy.toml").write_text("mine", encoding="utf-8")

    result = gandy("init")

    assert result.exit_code == 1
    assert result.stderr.startswith("gandy: gandy.toml already exists; nothing was written.")
    assert (folder / "gandy.toml").read_text(encoding="utf-8") == "mine"
    assert not (folder / "app.py").exists()


def test_a_folder_that_cannot_be_written_is_one_clear_message(gandy: Gandy, folder: Path) -> None:
    (folder / "file").write_text("in the way of a folder", encoding="utf-8")

    result = gandy("init", "file/below")

    assert result.exit_code == 1
    assert result.stderr == "gandy: file/below: cannot be written: Not a directory\n"
