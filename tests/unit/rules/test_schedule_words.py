from __future__ import annotations

from datetime import timedelta

import pytest

from gandy.rules.schedules import plain_cron, plain_interval


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0 * * * *", "every hour"),
        ("20 * * * *", "every hour, 20 minutes past"),
        ("0 3 * * *", "at 03:00"),
        ("30 6,18 * * *", "at 06:30 and 18:30"),
        ("0 9 * * mon-fri", "at 09:00, Monday to Friday"),
        ("0 9 * * 0", "at 09:00, Sunday"),
        ("0 9 * * 6,7", "at 09:00, Saturday and Sunday"),
        ("0 0 1 * *", "at 00:00, on day 1 of the month"),
        ("0 0 24 12 *", "at 00:00, on December 24"),
    ],
)
def test_common_expressions_are_said_in_words(expression: str, said: str) -> None:
    assert plain_cron(expression) == said


@pytest.mark.parametrize(
    "expression",
    [
        "*/7 3-5 * * *",
        "*/7 * * * *",
        "*/61 * * * *",
        "0 0 1 * mon",
        "0 0 L * *",
        "0 9 * * 1-3,5",
        "5 0 3 * * *",
    ],
)
def test_what_words_do_not_say_better_is_left_to_the_expression(expression: str) -> None:
    assert plain_cron(expression) is None


def test_intervals_are_said_in_words() -> None:
    assert plain_interval(timedelta(hours=1)) == "every hour"
    assert plain_interval(timedelta(minutes=90)) == "every 1h30m"
