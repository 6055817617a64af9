"""What a schedule may be is one thing at every door: the command line here, Python and TOML beside it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING

import pytest

from gandy import DateRange, Days, Gandy, TimeWindow, cron, every
from gandy.errors import CronExpressionError, ExclusionError, TimezoneNotFoundError
from gandy.model.schedule import Cron, Interval
from gandy.settings.bounds import LONGEST_EXPRESSION
from gandy.testing import Harness

if TYPE_CHECKING:
    from pathlib import Path

    from gandy.model.exclusion import Exclusion
    from tests.cli.conftest import Gandy as Command

APP = """
from gandy import Gandy, cron, every

app = Gandy("shop", database="sqlite:///shop.db")

@app.train
async def sell(count: int) -> int:
    return count

app.schedule("report", sell, 3, cron("@daily"))
app.schedule("extract", sell, 1, every(hours=1))
"""
NOTHING_LEFT: dict[str, tuple[Cron | Interval, tuple[Exclusion, ...]]] = {
    "time of day": (cron("0 3 * * *"), (TimeWindow(time(2), time(4)),)),
    "window over midnight": (cron("30 23 * * *"), (TimeWindow(time(22), time(6)),)),
    "weekdays": (cron("0 3 * * FRI-MON"), (Days.on("fri", "sat"), Days.on("sun", "mon"))),
    "whole day": (every(hours=1), (TimeWindow(time(0), time(12)), TimeWindow(time(12), time(0)))),
    "whole week": (every(hours=1), (Days.on("mon", "tue", "wed", "thu"), Days.on("fri", "sat", "sun"))),
    "all dates": (cron("@hourly"), (DateRange(date(1970, 1, 1), date.max),)),
}
EXPRESSIONS = {
    "@weekly": "0 0 * * 0",
    "0 22-2 * * *": "0 22-23,0-2 * * *",
    "0 3 * * FRI-MON": "0 3 * * 5-6,0-1",
}


@pytest.fixture
def shop(folder: Path, gandy: Command, imports: None) -> Command:  # noqa: ARG001 it forgets what is imported
    (folder / "shop_of_test.py").write_text(APP, encoding="utf-8")
    (folder / "gandy.toml").write_text('app = "shop_of_test:app"\n', encoding="utf-8")
    assert gandy("sync").exit_code == 0
    return gandy


@pytest.mark.parametrize("kind", NOTHING_LEFT)
async def test_exclusions_that_leave_no_instant_are_refused_in_python(kind: str) -> None:
    schedule, exclude = NOTHING_LEFT[kind]
    app = Gandy("shop")

    @app.train
    async def sell(count: int) -> int:
        return count

    with pytest.raises(ExclusionError, match="nothing would ever run"):
        app.schedule("a", sell, 1, schedule, exclude=exclude)
    with pytest.raises(ExclusionError, match="nothing would ever run"):
        app.schedule_many("b", sell, {"x": 1}, schedule, exclude=exclude)
    async with Harness(app, now=datetime(2026, 3, 1, 12, tzinfo=UTC)):
        with pytest.raises(ExclusionError, match="nothing would ever run"):
            await app.add_schedule("c", sell, 1, schedule, exclude=exclude)


async def test_a_rate_that_always_meets_its_exclusion_is_named_when_it_is_seeded() -> None:
    app = Gandy("shop")

    @app.train
    async def sell(count: int) -> int:
        return count

    app.schedule("noon", sell, 1, every(days=1), exclude=TimeWindow(time(11), time(13)))
    app.schedule("hourly", sell, 1, every(hours=1), exclude=TimeWindow(time(11), time(13)))
    async with Harness(app, now=datetime(2026, 3, 1, 12, tzinfo=UTC)):
        result = await app.seed()

    assert result.created == 1
    (refused,) = result.refused
    assert "noon" in refused.name
    assert "Use a cron" in refused.problem


def test_exclusions_that_leave_no_instant_are_refused_at_the_command_line(shop: Command) -> None:
    window = json.dumps([{"start": "23:00", "end": "01:00"}])
    for arguments in (
        ("manifests", "set", "report", "--exclude", window),
        ("manifests", "set", "extract", "--cron", "30 23 * * *", "--exclude", window),
    ):
        result = shop(*arguments)
        assert result.exit_code == 2, result.output
        assert "nothing would ever run" in result.stderr

    assert shop("manifests", "set", "extract", "--exclude", window).exit_code == 0
    late = shop("manifests", "set", "extract", "--cron", "30 23 * * *")
    assert late.exit_code == 2, "together with what was set before"
    assert "nothing would ever run" in late.stderr


@pytest.mark.parametrize("written", EXPRESSIONS)
def test_the_words_of_an_expression_are_read_at_the_command_line(shop: Command, written: str) -> None:
    assert shop("manifests", "set", "report", "--cron", written).exit_code == 0

    shown = json.loads(shop("manifests", "show", "report", "--json").stdout)
    assert EXPRESSIONS[written] in json.dumps(shown)


def test_the_longest_expression_is_the_same_at_each_door(shop: Command) -> None:
    longest = "0 0 * * " + ",".join(["1"] * 121)
    too_long = f"{longest},1,1"
    assert len(longest) <= LONGEST_EXPRESSION < len(too_long)

    assert cron(longest).expression == longest
    assert shop("manifests", "set", "report", "--cron", longest).exit_code == 0
    refused = shop("manifests", "set", "report", "--cron", too_long)
    assert refused.exit_code == 2
    assert str(LONGEST_EXPRESSION) in refused.stderr
    with pytest.raises(CronExpressionError, match=str(LONGEST_EXPRESSION)):
        cron(too_long)


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (Cron("not an expression"), CronExpressionError),
        (Cron("@reboot"), CronExpressionError),
        (Cron("0 3 * * *", "Middle/Earth"), TimezoneNotFoundError),
        (Interval(every(hours=1).every, "Middle/Earth"), TimezoneNotFoundError),
    ],
    ids=str,
)
def test_a_schedule_made_by_hand_is_checked_as_well(made: Cron | Interval, error: type[Exception]) -> None:
    app = Gandy("shop")

    @app.train
    async def sell(count: int) -> int:
        return count

    with pytest.raises(error):
        app.schedule("a", sell, 1, made)
