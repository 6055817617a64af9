"""A role that may not use the state is told schema, table, privilege and GRANT, by every command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from gandy.cli.main import main
from gandy.lifecycle import Contract, Table, check, keep, older_than
from gandy.lifecycle.supervisor.tick import run_contracts
from tests.lifecycle.paths import STATE_TABLES, execute, two_paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lifecycle.ground import Ground
    from tests.lifecycle.paths import Paths

CONTRACT = """
version = 1
[lifecycle.app]
[[lifecycle.app.tables]]
name = "note"
schema = "app"
rules = [{ older_than = "at", keep_for = "7d" }, { keep = { column = "held", equals = true } }]
"""
APP = Contract(
    "app", [Table("note", [older_than("at", keep_for="7d"), keep("held", equals=True)], schema="app")]
)
RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
READ = ("hold", "quarantine", "rule")
# What each command needs of which table; a sweep needs all of it.
NEEDS = {
    "check": (RIGHTS, STATE_TABLES),
    "plan": (("SELECT",), READ),
    "sweep": (RIGHTS, STATE_TABLES),
    "audit": (RIGHTS, STATE_TABLES),
    "quarantine": (("SELECT",), ("quarantine",)),
    "release": (("SELECT", "DELETE"), ("quarantine",)),
    "forget": (("SELECT", "DELETE"), ("hold", "lease", "quarantine", "rule")),
}
OPTIONS = {"sweep": ["--yes"], "release": ["--release"], "forget": ["app", "--yes"]}
GRANT = re.compile(r"(GRANT [A-Z, ]+ ON (?:SCHEMA )?[\w., ]+? TO \w+)")


@pytest.fixture
def paths(postgres: Ground) -> Iterator[Paths]:
    """The state is made by the left role; the right one may use all of it."""
    with two_paths(postgres) as found:
        found.share()
        run_contracts([APP], found.left.url)
        yield found


def call(ground: Ground, folder: Path, command: str) -> Result:
    file = folder / "lifecycle.toml"
    file.write_text(CONTRACT, encoding="utf-8")
    name = "quarantine" if command == "release" else command
    given = ["lifecycle", name, "--contract", str(file), "--target", ground.url, *OPTIONS.get(command, [])]
    return CliRunner().invoke(main, given, prog_name="gandy")


def must_be_told(result: Result, command: str, *words: str) -> list[str]:
    """The statements that the command says would help."""
    assert isinstance(result.exception, SystemExit | None), result.exception
    told = result.stdout if command == "check" else result.stderr
    [line] = [line for line in told.splitlines() if "GRANT" in line]
    assert "permission denied" not in result.output
    assert all(word in line for word in words), line
    if command != "audit":  # which looks all the same, and keeps no history
        assert result.exit_code == 1
    if command not in {"audit", "check"}:
        assert told.splitlines() == [line]
    return GRANT.findall(line)


@pytest.mark.parametrize("right", RIGHTS)
def test_a_privilege_that_is_missing_is_told_by_each_command_that_needs_it(
    paths: Paths, tmp_path: Path, right: str
) -> None:
    for command, (rights, tables) in NEEDS.items():
        execute(paths.owner, f"REVOKE {right} ON ALL TABLES IN SCHEMA left_side FROM {paths.right_role}")
        result = call(paths.right, tmp_path, command)
        if right in rights:
            names = ", ".join(f"left_side.gandy_lifecycle_{table}" for table in tables)
            told = must_be_told(result, command, f"lacks {right} on {names}", paths.right_role)
            execute(paths.owner, *told)
            result = call(paths.right, tmp_path, command)
        assert (result.exit_code, "GRANT" in result.output) == (0, False), (command, result.output)
    assert paths.sets() == ["left_side"]


def test_check_finds_each_privilege_that_a_sweep_needs(paths: Paths) -> None:
    for table in STATE_TABLES:
        for right in RIGHTS:
            where = f"{right} ON left_side.gandy_lifecycle_{table}"
            execute(paths.owner, f"REVOKE {where} FROM {paths.right_role}")
            [found] = check([APP], paths.right.url)
            assert found.remedy == f"Run: GRANT {where} TO {paths.right_role}"
            execute(paths.owner, found.remedy.removeprefix("Run: "))


def test_a_schema_that_is_closed_is_told_by_every_command(paths: Paths, tmp_path: Path) -> None:
    for command in NEEDS:
        execute(
            paths.owner,
            f"REVOKE USAGE ON SCHEMA left_side FROM {paths.right_role}",
            f"REVOKE ALL ON ALL TABLES IN SCHEMA left_side FROM {paths.right_role}",
        )
        told = call(paths.right, tmp_path, command)
        grants = must_be_told(told, command, "USAGE on SCHEMA left_side", paths.right_role)
        execute(paths.owner, *grants)
        assert call(paths.right, tmp_path, command).exit_code == 0, command
    assert paths.sets() == ["left_side"]


def test_a_tick_of_the_loop_is_told_too(paths: Paths) -> None:
    execute(paths.owner, f"REVOKE USAGE ON SCHEMA left_side FROM {paths.right_role}")

    [report] = run_contracts([APP], paths.right.url)

    [failure] = report.failures
    assert f"GRANT USAGE ON SCHEMA left_side TO {paths.right_role}" in failure.error


@pytest.mark.parametrize("command", [command for command in NEEDS if command not in {"audit", "check"}])
def test_rows_of_the_state_that_are_hidden_stop_each_command(
    paths: Paths, tmp_path: Path, command: str
) -> None:
    execute(
        paths.owner,
        *(
            f"ALTER TABLE left_side.gandy_lifecycle_{table} ENABLE ROW LEVEL SECURITY"
            for table in STATE_TABLES
        ),
    )

    told = call(paths.right, tmp_path, command)

    assert (told.exit_code, "DISABLE ROW LEVEL SECURITY" in told.stderr) == (1, True)
    assert "row level security" in call(paths.right, tmp_path, "check").stdout
    assert paths.owner.ids("app.note") == [2]
