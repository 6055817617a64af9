"""How long the runs of a train are kept: the manifest's word, its train's, the table's, the state's."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

import pytest

from gandy import Gandy
from gandy.clock import ManualClock
from gandy.desk.doctor import Doctor
from gandy.errors import SettingsError
from gandy.model.owners import OneOwner
from gandy.settings import load_settings
from gandy.testing import Harness
from tests.support.world import World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
#: The most specific first.
WORDS = {"manifest": timedelta(hours=1), "train": timedelta(hours=2), "table": timedelta(hours=3)}
BY_STATE = {"completed": timedelta(days=7), "failed": timedelta(days=30)}
CASES = {
    "_".join([state, *(word for word in WORDS if word in said)]): (said, state)
    for state in BY_STATE
    for said in (
        {word for word, is_said in zip(WORDS, flags, strict=True) if is_said}
        for flags in product((False, True), repeat=len(WORDS))
    )
}


def expected(said: set[str], state: str) -> timedelta:
    return next((WORDS[word] for word in WORDS if word in said), BY_STATE[state])


def train_of(state: str) -> Callable[[int], Awaitable[None]]:
    async def work(count: int) -> None:
        if state == "failed":
            raise ValueError(count)

    return work


async def test_the_most_specific_word_decides_how_long_a_run_is_kept(migrated_url: str) -> None:
    app = Gandy("shop", database=migrated_url)
    clock = ManualClock(NOW)
    app.use_clock(clock)
    trains = {name: train_of(state) for name, (_, state) in CASES.items()}
    for name, (said, _) in CASES.items():
        keep_for = WORDS["train"] if "train" in said else None
        app.train(name=name, retry=False, keep_for=keep_for)(trains[name])
        app.schedule(name, trains[name], 1, keep_for=WORDS["manifest"] if "manifest" in said else None)
    app.cleanup(
        retention={trains[name]: WORDS["table"] for name, (said, _) in CASES.items() if "table" in said}
    )
    async with app:
        await app.seed()
        for name, (said, _) in CASES.items():
            await (app.trigger(name) if "manifest" in said else app.enqueue(trains[name], 1))
        await app.work(asyncio.Event(), until_idle=True)
        world = World(migrated_url, clock, app.database)
        rows = world.rows(
            "SELECT name, train_state, keep_until, end_time FROM metadata WHERE origin IS NOT NULL"
        )

    assert {row["name"] for row in rows} == CASES.keys()
    for row in rows:
        said, state = CASES[row["name"]]
        kept = world.instant(row["keep_until"]) - world.instant(row["end_time"])
        assert (row["train_state"], kept) == (state, expected(said, state)), row["name"]


async def test_the_runs_of_a_train_go_when_its_own_time_is_over_and_no_sooner() -> None:
    app = Gandy("shop")
    spans = {"Brief": 5, "Long": 90, "ManifestManagerTrain": 90}

    for name in ("Brief", "Long", "Noisy"):
        app.train(name=name)(train_of("completed"))
    app.cleanup(
        retention={
            **{name: timedelta(minutes=span) for name, span in spans.items()},
            "*": timedelta(minutes=20),
        },
        trains=["Long", "Noisy"],
    )
    async with Harness(app, now=NOW) as harness:
        world = World(app.settings.database.url, harness.clock, app.database)
        for name in ("Brief", "Long", "Noisy"):
            await app.enqueue(app.registry.get(name).source, 1)
        await harness.run_until_idle()
        await harness.tick("manifest-manager")
        left = {}
        for minute in (4, 6, 19, 21, 89, 91):
            harness.clock.advance(NOW + timedelta(minutes=minute) - harness.clock.now)
            await harness.tick("metadata-cleanup")
            await harness.tick("lifecycle")
            rows = world.rows(
                "SELECT name FROM metadata WHERE name NOT LIKE '%Cleanup%' AND name NOT LIKE 'Table%'"
            )
            left[minute] = {row["name"] for row in rows}

    everything = {"Brief", "Long", "Noisy", "ManifestManagerTrain"}
    assert left == {
        4: everything,
        6: everything - {"Brief"},
        19: everything - {"Brief"},
        21: {"Long", "ManifestManagerTrain"},
        89: {"Long", "ManifestManagerTrain"},
        91: set(),
    }


def test_the_table_of_the_file_and_the_variable_say_the_same(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "gandy.toml").write_text('[cleanup.retention]\nPoll = "5m"\n"*" = "1h"\n')
    by_file = load_settings(environ={}, directory=tmp_path).settings.cleanup
    environ = {"GANDY_CLEANUP_RETENTION_BY_TRAIN": "Poll=5m", "GANDY_CLEANUP_RETENTION": "1h"}
    (tmp_path / "gandy.toml").unlink()
    by_environment = load_settings(environ=environ, directory=tmp_path).settings.cleanup

    assert by_file == by_environment
    assert (by_file.kept("Poll"), by_file.kept("Other")) == (timedelta(minutes=5), timedelta(hours=1))


@pytest.mark.parametrize(
    "wrong", [{"Poll": "soon"}, {"": "5m"}, {"Poll": 5}, {"*": "-1m"}, {"Poll": {"a": "5m"}}]
)
def test_what_is_no_duration_of_a_train_is_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cleanup\.retention"):
        load_settings(keywords={"cleanup": {"retention": wrong}}, environ={}, directory=tmp_path)


async def test_a_name_that_no_train_has_is_told_and_stops_nothing() -> None:
    app = Gandy("shop")
    app.train(name="Poll")(train_of("completed"))
    app.cleanup(retention={"Pol": timedelta(minutes=5), "JobDispatcherTrain": timedelta(minutes=5)})
    async with Harness(app, now=NOW) as harness:
        await harness.tick("manifest-manager")
        doctor = Doctor(app.settings, owners=OneOwner("shop"), registry=app.registry)
        report = await doctor.examine(clock=harness.clock, host_now=lambda: NOW)

    (found,) = [finding for finding in report.findings if "cleanup.retention" in finding.what]
    assert found.level == "warning"
    assert found.what.endswith(": Pol")
