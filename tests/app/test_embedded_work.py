"""`await app.work(...)` inside another program leaves nothing behind that works on a closed database."""

from __future__ import annotations

import asyncio

import pytest

from gandy import Gandy
from gandy.store.drivers.opening import migrate
from gandy.work.claiming import Claimer
from gandy.work.pool import Lookout


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_no_loop_outlives_the_work_though_it_is_woken_while_it_is_cancelled(
    database_url: str, steps: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = Gandy("shop", database_url)
    done: list[int] = []

    @app.train
    async def send(number: int) -> None:
        done.append(number)

    async def woken_meanwhile(claimer: Claimer, seconds: float) -> None:
        await settle(claimer, seconds)
        claimer._changed.set()  # as an open claim does that ends now
        for lookout in lookouts:
            lookout._later.set()
        for _ in range(steps):
            await asyncio.sleep(0)

    settle, made = Claimer.settle, Lookout.__init__
    lookouts: list[Lookout] = []

    def remembered(lookout: Lookout, *arguments: object) -> None:
        lookouts.append(lookout)
        made(lookout, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Claimer, "settle", woken_meanwhile)
    monkeypatch.setattr(Lookout, "__init__", remembered)
    migrate(database_url)
    async with app:
        await app.enqueue_many(send, [*range(20)])
        await app.work(asyncio.Event(), until_idle=True)
        left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("gandy-worker")]

    assert sorted(done) == [*range(20)]
    assert left == []
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
