"""What waits for its turn, as an operator sees it at the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gandy.store.drivers.opening import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Gandy
    from tests.support.databases import DatabaseHome

APP = """
from gandy import Gandy, Run

app = Gandy("billing")

@app.train
async def close(months: int, run: Run) -> None:
    for month in range(months):
        run.activate("invoice", month)

@app.train
async def send(month: int) -> int:
    return month

app.schedule("books", close, 3).then("invoice", send, 0, dormant=True)
"""


class Books:
    """An application with three activations that wait for a disabled dependent."""

    def __init__(self, gandy: Gandy, url: str) -> None:
        self._gandy = gandy
        self._variables = {"GANDY_APP": "billing:app", "GANDY_DATABASE_URL": url}
        self("sync")
        self("manifests", "disable", "invoice")
        self("manifests", "trigger", "books")
        self("work", "--until-idle")

    def __call__(self, *arguments: str, code: int = 0) -> str:
        ended = self._gandy(*arguments, env=self._variables)
        assert ended.exit_code == code, ended.output
        return ended.stdout

    def json(self, *arguments: str) -> Any:  # noqa: ANN401 whatever the command prints
        return json.loads(self(*arguments, "--json"))

    def listed(self, *arguments: str) -> list[tuple[int, str]]:
        rows = self.json("queue", "list", *arguments)
        return [(row["id"], row["status"]) for row in rows if row["manifest"] == "invoice"]


@pytest.fixture
def books(database_home: DatabaseHome, gandy: Gandy, folder: Path, imports: None) -> Iterator[Books]:
    assert imports is None
    template = database_home.template("migrated", lambda url: (migrate(url), None)[1])
    (folder / "billing.py").write_text(APP)
    with database_home.database(template) as url:
        yield Books(gandy, url)


def test_what_waits_is_listed_explained_counted_and_cancelled(books: Books) -> None:
    waiting = books.listed()
    assert [status for _, status in waiting] == ["waiting"] * 3
    assert books.listed("--status", "waiting") == books.listed("--status", "all") == waiting
    assert books.listed("--status", "queued") == []
    first = min(entry_id for entry_id, _ in waiting)
    assert f"3 entries wait for their turn, entry {first} first" in books("manifests", "explain", "invoice")
    assert books.json("manifests", "show", "invoice")["waiting_entries"] == 3
    assert "3 waiting entries of invoice (billing): it is disabled" in books("doctor", code=1)

    books("queue", "cancel", str(first))

    assert books.listed() == waiting[:2]
    books("manifests", "enable", "invoice")
    assert sorted(status for _, status in books.listed()) == ["queued", "waiting"]
    books("work", "--until-idle")
    runs = books.json("runs", "list", "--train", "send")
    assert sorted(run["id"] for run in runs) == sorted(entry_id for entry_id, _ in waiting[:2])


def test_cancelling_the_queued_entry_gives_the_next_its_turn(books: Books) -> None:
    first, second, _ = sorted(entry_id for entry_id, _ in books.listed())
    books("manifests", "enable", "invoice")
    assert books.listed("--status", "queued") == [(first, "queued")]

    books("queue", "cancel", str(first))

    assert books.listed("--status", "queued") == [(second, "queued")]
