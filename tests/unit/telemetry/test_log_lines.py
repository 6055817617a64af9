"""Lines of the log: one for each event of Gandy, in every format."""

from __future__ import annotations

import json
import logging

import pytest

from gandy.telemetry.log_lines import JsonLines, TextLines

SEVERAL = "the group\nmail: no such\r\nstreet"


def record(name: str, message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "", 0, message, args, None)


@pytest.mark.parametrize("formatter", [TextLines(), TextLines("%(levelname)s %(message)s"), JsonLines()])
@pytest.mark.parametrize("name", ["gandy.worker", "gandy.lifecycle", "gandy.web"])
def test_an_event_of_gandy_is_one_line(formatter: logging.Formatter, name: str) -> None:
    line = formatter.format(record(name, "run 1 failed: %s", SEVERAL))

    assert line.splitlines() == [line]
    assert "no such\\r\\nstreet" in line


@pytest.mark.parametrize("name", ["gandy.run", "shop"])
def test_a_message_of_the_application_keeps_its_lines(name: str) -> None:
    first, *others = TextLines().format(record(name, "%s", "one\ntwo")).splitlines()

    assert first.endswith(f"{name}: one")
    assert others == ["  two"]
    assert json.loads(JsonLines().format(record(name, "one\ntwo")))["message"] == "one\ntwo"


def test_a_traceback_stays_below_its_line() -> None:
    made = record("gandy.web", "GET / failed: %s", SEVERAL)
    made.exc_info = (ValueError, ValueError("first\nsecond"), None)

    first, *others = TextLines().format(made).splitlines()

    assert "no such\\r\\nstreet" in first
    assert others == ["  ValueError: first", "  second"]
