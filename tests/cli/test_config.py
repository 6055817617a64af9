from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gandy.settings import list_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Gandy


def test_show_lists_every_setting_with_where_it_came_from(gandy: Gandy, folder: Path) -> None:
    (folder / "gandy.toml").write_text("[worker]\nslots = 7\n", encoding="utf-8")

    result = gandy("config", "show", env={"GANDY_WORKER_THREADS": "9"})

    lines = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert result.exit_code == 0
    assert lines["SETTING"] == ["VALUE", "ORIGIN", "PLACE"]
    assert set(lines) == {"SETTING", *(setting.key for setting in list_settings())}
    assert lines["worker.slots"] == ["7", "file", str(folder / "gandy.toml")]
    assert lines["worker.threads"] == ["9", "environment", "GANDY_WORKER_THREADS"]
    assert lines["worker.prefetch"] == ["2000", "default"]
    assert "\x1b" not in result.stdout
    assert result.stderr == f"Settings file: {folder / 'gandy.toml'}\n"


def test_show_as_json_is_json_alone(gandy: Gandy) -> None:
    result = gandy("--database", "postgresql://ada:hunter2@db/main", "config", "show", "--json")

    shown = json.loads(result.stdout)
    assert shown["file"] is None
    assert shown["settings"][0] == {
        "setting": "database.url",
        "value": "postgresql://ada:***@db/main",
        "origin": "keyword",
        "place": "",
    }
    assert len(shown["settings"]) == len(list_settings())


def test_show_hides_secrets(gandy: Gandy) -> None:
    result = gandy(
        "config", "show", env={"GANDY_WEB_TOKEN": "hunter2" * 3, "GANDY_WEB_READONLY_TOKEN": "hunter3" * 3}
    )

    assert result.exit_code == 0
    assert "hunter" not in result.output
    assert "web.token" in result.stdout


def test_every_problem_of_the_settings_is_told_at_once(gandy: Gandy, folder: Path) -> None:
    (folder / "gandy.toml").write_text("[worker]\nslots = 0\nthreds = 1\n", encoding="utf-8")

    result = gandy("config", "show", env={"GANDY_WEB_PORT": "high"})

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("gandy: 3 problems in the settings:\n")


def test_a_malformed_file_is_one_clear_message(gandy: Gandy, folder: Path) -> None:
    (folder / "gandy.toml").write_text("[worker\n", encoding="utf-8")

    result = gandy("config", "show")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"gandy: {folder / 'gandy.toml'}: is not TOML: ")
    assert result.stderr.count("\n") == 1
