"""A job whose dead letter waits, as an operator sees it: nothing happens until it is resolved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gandy.store.drivers.opening import migrate
from tests.support.backdating import MISSED, backdate_letters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Gandy
    from tests.support.databases import DatabaseHome

APP = """
from gandy import Gandy, every

app = Gandy("billing")

@app.train(max_retries=1)
async def send(n: int) -> int:
    raise ValueError("unlucky")

app.schedule("hourly", send, 1, every(hours=1))
"""
DOORS = [
    ("requeue", "1"),
    ("requeue", "--all", "--yes"),
    ("acknowledge", "1", "--note", "seen"),
    ("acknowledge", "--all", "--yes", "--note", "seen"),
]


class Parked:
    """An application whose only job is parked, and the command line in its folder."""

    def __init__(self, gandy: Gandy, url: str) -> None:
        self._gandy = gandy
        self._variables = {"GANDY_APP": "billing:app", "GANDY_DATABASE_URL": url}
        self.tick()
        ended = self._gandy("work", "--until-idle", env=self._variables)
        assert (ended.exit_code, "\n1 job was parked;" in ended.stderr) == (1, True)
        assert self.tick()["dead_lettered"] == 0, "the letter is written with the end"
        backdate_letters(url)

    def tick(self) -> Any:  # noqa: ANN401 what one cycle has done
        return json.loads(self.run("tick", "manifest-manager"))

    def json(self, *arguments: str) -> Any:  # noqa: ANN401 whatever the command prints
        return json.loads(self.run(*arguments, "--json"))

    def run(self, *arguments: str) -> str:
        ended = self._gandy(*arguments, env=self._variables)
        assert ended.exit_code == 0, ended.stderr
        return ended.stdout


@pytest.fixture
def parked(database_home: DatabaseHome, gandy: Gandy, folder: Path, imports: None) -> Iterator[Parked]:
    assert imports is None
    template = database_home.template("migrated", lambda url: (migrate(url), None)[1])
    (folder / "billing.py").write_text(APP)
    with database_home.database(template) as url:
        yield Parked(gandy, url)


@pytest.mark.parametrize("door", DOORS, ids=" ".join)
def test_a_resolution_settles_what_came_due_and_lets_the_job_go_on(
    parked: Parked, door: tuple[str, ...]
) -> None:
    ticked = parked.tick()
    assert (ticked["looked_at"], ticked["skipped"], ticked["queued"]) == (0, 0, 0)

    parked.json("dead-letters", *door)

    explained = parked.json("manifests", "explain", "hourly")
    skipped = [line for line in explained["verdicts"] if line["verdict"] == "skipped: dead_letter"]
    assert [line["occurrences"] for line in skipped] == [MISSED]
    assert explained["next_instant"] > explained["now"]
    assert explained["next_look"] == explained["next_instant"]
