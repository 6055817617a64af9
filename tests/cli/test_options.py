from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from gandy.cli.options import bounded, confirm, example, json_input, json_option, yes_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command(epilog=example("probe --delay 5m", "probe --input @file"))
@click.option("--delay", type=bounded("delay"), default="1h30m")
@click.option("--input", "text", type=json_input, default="{}")
@json_option
@yes_option
def probe(delay: timedelta, text: str, *, as_json: bool, yes: bool) -> None:
    confirm("Cancel 3 runs?", yes=yes)
    click.echo(f"{delay!r} {text} {as_json}")


def call(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(probe, arguments, input=stdin)


def test_a_duration_is_read_with_its_unit() -> None:
    assert call("--yes").stdout == f"{timedelta(hours=1, minutes=30)!r} {{}} False\n"
    assert call("--yes", "--delay", "5m", "--json").stdout == f"{timedelta(minutes=5)!r} {{}} True\n"


def test_a_duration_without_a_unit_is_a_wrong_call() -> None:
    result = call("--yes", "--delay", "5")

    assert result.exit_code == 2
    assert "Invalid value for '--delay': '5' has no unit; write 5s or 5m" in result.stderr


def test_json_comes_from_the_argument_a_file_or_stdin(tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text('{"a": "ü"}', encoding="utf-8")

    assert call("--yes", "--input", '{"a": 1}').stdout.endswith('{"a": 1} False\n')
    assert call("--yes", "--input", f"@{tmp_path}/input.json").stdout.endswith('{"a": "ü"} False\n')
    assert call("--yes", "--input", "-", stdin="[1, 2]").stdout.endswith("[1, 2] False\n")


@pytest.mark.parametrize("text", ["{", "", "{'a': 1}", "NaN", "@/no/such/file", "[" * 100_000])
def test_what_is_no_json_is_a_wrong_call(text: str) -> None:
    result = call("--yes", "--input", text)

    assert result.exit_code == 2
    assert "Invalid value for '--input': " in result.stderr
    assert result.stdout == ""


def test_a_bulk_change_needs_yes_where_nobody_can_be_asked() -> None:
    result = call()

    assert result.exit_code == 2
    assert "Cancel 3 runs? No terminal to confirm on; pass --yes." in result.stderr


@pytest.mark.parametrize(("answer", "exit_code"), [("y\n", 0), ("n\n", 1)])
def test_a_bulk_change_asks_at_a_terminal(
    answer: str, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gandy.cli.options._has_terminal", lambda: True)

    result = call(stdin=answer)

    assert "Cancel 3 runs?" in result.stderr
    assert result.exit_code == exit_code


def test_the_example_stands_in_the_help_line_by_line() -> None:
    assert "Example:\n    probe --delay 5m\n    probe --input @file\n" in call("--help").stdout
