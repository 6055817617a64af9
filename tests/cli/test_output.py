from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.cli.output import emit_record, emit_rows, human, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

NOON = datetime(2026, 3, 1, 13, 0, 5, 250_000, tzinfo=timezone(timedelta(hours=1)))


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Row:
    name: str
    took: timedelta
    hidden: int = 1


ROWS = [Row("first", timedelta(seconds=90)), Row("the second", timedelta(milliseconds=20))]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (0, "0"),
        (NOON, "2026-03-01 12:00:05Z"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(seconds=90, milliseconds=4), "1m30s"),
        (timedelta(seconds=1, milliseconds=4, microseconds=3), "1s4ms"),
        (Colour.RED, "red"),
        ({"a": [1]}, '{"a": [1]}'),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("Zürich", "Zürich"),
    ],
)
def test_a_value_is_written_for_people(value: object, text: str) -> None:
    assert human(value) == text


@given(st.text())
def test_nothing_that_is_shown_moves_the_cursor(text: str) -> None:
    assert human(text).isprintable()


def test_a_value_is_written_for_programs() -> None:
    values = {
        "at": NOON,
        "on": NOON.date(),
        "took": timedelta(seconds=90),
        "colour": Colour.RED,
        "path": Path("a/b"),
        "id": UUID(int=1),
        "names": frozenset({"b", "a"}),
        "row": ROWS[0],
        "map": MappingProxyType({"a": 1}),
    }

    assert json.loads(to_json(values)) == {
        "at": "2026-03-01T12:00:05.250000Z",
        "on": "2026-03-01",
        "took": 90.0,
        "colour": "red",
        "path": "a/b",
        "id": "00000000-0000-0000-0000-000000000001",
        "names": ["a", "b"],
        "row": {"name": "first", "took": 90.0, "hidden": 1},
        "map": {"a": 1},
    }


def test_what_cannot_be_written_for_programs_is_an_error_not_a_guess() -> None:
    with pytest.raises(TypeError, match="object is neither a mapping nor a dataclass"):
        to_json(object())


def test_a_listing_in_a_pipe_is_aligned_text_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    emit_rows(ROWS, ("name", "took"), as_json=False)

    assert capsys.readouterr().out == "NAME        TOOK\nfirst       1m30s\nthe second  20ms\n"


def test_characters_of_two_cells_and_marks_of_none_keep_columns_aligned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"name": "日本", "count": 1}, {"name": "e\u0301a", "count": 2}, {"name": "🚂", "count": 3}]

    emit_rows(rows, ("name", "count"), as_json=False)

    assert capsys.readouterr().out == "NAME  COUNT\n日本  1\ne\u0301a    2\n🚂    3\n"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def widen(width: int) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))

    return widen


def test_a_long_id_goes_on_in_the_next_line_beside_the_answer(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(80)
    row = {
        "id": 7,
        "manifest": "z" * 180,
        "status": "queued",
        "scheduled_at": NOON,
        "why": "its group is full",
    }

    emit_rows([row], ("id", "manifest", "status", "scheduled_at", "why"), as_json=False)

    out, err = capsys.readouterr()
    assert out.count("z") == 180
    assert "its group" in out
    assert max(map(len, re.sub(r"\x1b\[\d*m", "", out).splitlines())) <= 80
    assert err == ""


def test_a_narrow_terminal_keeps_the_column_that_was_asked_for(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(40)
    figures = {f"figure_{number}": number for number in range(8)}

    emit_rows([{"train": "send", **figures}], ("train", *figures), as_json=False, asked="figure_7")

    out, err = capsys.readouterr()
    assert "figure 7" in out
    assert "figure 6" not in out
    assert "figure 6" in err


def test_a_listing_as_json_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    emit_rows(ROWS, ("name",), as_json=True)

    assert json.loads(capsys.readouterr().out)[0] == {"name": "first", "took": 90.0, "hidden": 1}


def test_an_empty_listing_says_so_and_leaves_stdout_clean(capsys: pytest.CaptureFixture[str]) -> None:
    emit_rows([], ("name",), as_json=False)
    assert capsys.readouterr() == ("", "Nothing to show.\n")

    emit_rows([], ("name",), as_json=True)
    assert capsys.readouterr() == ("[]\n", "")


def test_a_record_has_a_line_for_each_field(capsys: pytest.CaptureFixture[str]) -> None:
    emit_record({"name": "first", "due_at": NOON.astimezone(UTC)}, as_json=False)

    assert capsys.readouterr().out == "name:    first\ndue at:  2026-03-01 12:00:05Z\n"


def test_a_terminal_gets_a_table_in_which_no_markup_is_obeyed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")

    emit_rows([{"name": "[red]x[/red]", "count": 1}], ("name", "count"), as_json=False)

    out = capsys.readouterr().out
    assert "[red]x[/red]" in out
    assert "─" in out
