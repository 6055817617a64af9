from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from tests.architecture.source import PACKAGE, ROOT, package_files

pytestmark = pytest.mark.xdist_group("architecture")  # all files are parsed once


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def exists(room: str) -> bool:
    return (PACKAGE / room / "__init__.py").is_file() or (PACKAGE / f"{room}.py").is_file()


def test_imports_keep_the_contracts() -> None:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
    ]
    result = subprocess.run(
        [*command, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 kept, 0 broken" in result.stdout


def test_a_room_that_is_built_is_no_longer_optional_in_the_contracts() -> None:
    optional = {room for layer in contracts()[0]["layers"] for room in re.findall(r"\((\w+)\)", layer)}

    assert {room for room in optional if exists(room)} == set()


def test_the_lifecycle_contract_names_every_room_it_must_not_know() -> None:
    forbidden = {
        f"gandy.{room}"
        for room in ("store", "train", "loops", "work", "upkeep", "scheduler", "app")
        if exists(room)
    }

    assert set(contracts()[1]["forbidden_modules"]) == forbidden


def test_nothing_inside_comes_in_by_the_front_door() -> None:
    through_the_door = [
        file.at(node)
        for file in package_files()
        for node in file.walk()
        if (isinstance(node, ast.ImportFrom) and node.module == "gandy" and not _rooms_only(node))
        or (isinstance(node, ast.Import) and any(name.name == "gandy" for name in node.names))
    ]

    assert through_the_door == []


def _rooms_only(node: ast.ImportFrom) -> bool:
    return all(exists(name.name) for name in node.names)
