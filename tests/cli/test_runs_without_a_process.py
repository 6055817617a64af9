"""A run in progress that no living process holds, seen from the command line."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from gandy.store.drivers.opening import migrate
from tests.support.world import WORKER, open_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import Gandy
    from tests.support.databases import DatabaseHome

APP = """
from gandy import Gandy

app = Gandy("shop")

@app.train
async def send(n: int) -> int:
    return n
"""
GONE = ("stopped", "lost", "pruned")


class Shop:
    """An application whose worker took a job and is gone."""

    def __init__(self, gandy: Gandy, url: str) -> None:
        self._gandy = gandy
        self.url = url
        self.variables = {"GANDY_APP": "shop:app", "GANDY_DATABASE_URL": url}

    def __call__(self, *arguments: str) -> Result:
        return self._gandy(*arguments, env=self.variables)

    def json(self, *arguments: str, code: int = 0) -> Any:  # noqa: ANN401 whatever the command prints
        ended = self(*arguments, "--json")
        assert ended.exit_code == code, ended.stderr
        return json.loads(ended.stdout)

    def lose(self, gone: str) -> int:
        """Let a worker take a job and be gone; the job is retried without a worker's help."""
        job: int = self.json("queue", "enqueue", "send", "--input", "1")["id"]
        asyncio.run(self._take(gone))
        return job

    async def _take(self, gone: str) -> None:
        world = await open_world(self.url)
        world.rows("UPDATE work_queue SET scheduled_at = ?, gate = 'open'", world.stamp())
        assert len(await world.claim()) == 1
        if gone == "pruned":
            world.rows("DELETE FROM worker WHERE id = ?", WORKER)
        else:
            world.rows("UPDATE worker SET state = ? WHERE id = ?", gone, WORKER)
        await world.database.close()


@pytest.fixture
def shop(database_home: DatabaseHome, gandy: Gandy, folder: Path, imports: None) -> Iterator[Shop]:
    assert imports is None
    template = database_home.template("migrated", lambda url: (migrate(url), None)[1])
    (folder / "shop.py").write_text(APP)
    with database_home.database(template) as url:
        yield Shop(gandy, url)


@pytest.mark.parametrize("gone", GONE)
def test_one_tick_gives_it_to_others_and_the_job_is_done(shop: Shop, gone: str) -> None:
    job = shop.lose(gone)

    assert json.loads(shop("tick", "manifest-manager").stdout)["reaped"] == 1

    assert shop.json("runs", "show", str(job))["failure_exception"] == "WorkerLost"
    assert shop("work", "--until-idle").exit_code == 0
    assert [run["state"] for run in shop.json("runs", "list", "--train", "send")] == ["completed", "failed"]


@pytest.mark.parametrize("gone", GONE)
def test_doctor_names_it_and_a_person_frees_it(shop: Shop, gone: str) -> None:
    job = shop.lose(gone)

    told = shop.json("doctor", code=1)["findings"]
    assert [each["what"] for each in told if f"{job} (send)" in each["what"]]
    failed = shop.json("runs", "fail", str(job), "--reason", "its host is gone")

    assert (failed["id"], failed["state"], failed["next_attempt"]) == (job, "failed", job + 1)
    assert shop("work", "--until-idle").exit_code == 0
    assert shop.json("runs", "show", str(job + 1))["state"] == "completed"
    again = shop("runs", "fail", str(job))
    assert (again.exit_code, again.stdout) == (1, "")
    assert f"run {job} is over" in again.stderr
    assert shop("runs", "fail", "999999").exit_code == 1
    assert shop("runs", "fail", str(job), "--reason", "x" * 4_001).exit_code == 2
