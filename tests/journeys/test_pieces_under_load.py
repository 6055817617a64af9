"""Pieces of history are opened while real worker processes end runs as fast as they can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.journeys.apps.parcels import Parcel, app, send
from tests.journeys.processes import fleet
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.postgres import PostgresServer

PARCELS = 15_000
#: Every run is in one piece, and its line in the same one.
PLACES = """
SELECT count(*), count(DISTINCT h.id), count(DISTINCT h.piece), count(l.id),
       count(l.id) FILTER (WHERE (l.bucket, l.piece) = (h.bucket, h.piece)),
       count(*) FILTER (WHERE train_state = 'completed')
FROM gandy.history h LEFT JOIN gandy.log l ON l.metadata_id = h.id WHERE h.name = 'send'
"""

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.database(
        postgres_server.template("migrated", lambda url: (migrate(url), None)[1])
    ) as url:
        yield url


def test_no_run_is_lost_and_none_is_refused_while_pieces_are_opened(url: str, tmp_path: Path) -> None:
    app.configure({"database": {"url": url}})
    sent = pieces = 0
    settings = {"GANDY_RETENTION_PIECE_BYTES": "1048576", "GANDY_RETENTION_INTERVAL": "100ms"}
    with fleet(url, tmp_path, **settings) as ships, psycopg.connect(url, autocommit=True) as link:
        ships.app = "tests.journeys.apps.parcels:app"
        keeper = ships.start("up", "--services", "lifecycle")
        worker = ships.start("work", "--workers", "2")
        while pieces < 3:  # a fast worker ends before the keeper has measured often enough
            with app as sync:
                sync.enqueue_many(send, [Parcel(number=sent + number) for number in range(PARCELS)])
            sent += PARCELS
            wait_until(lambda: left(link) == 0, "all jobs have ended", within=200)
            runs, ids, pieces, lines, beside, completed = link.execute(PLACES).fetchone() or ()
        said = ships.log_of(worker) + ships.log_of(keeper)

    assert (runs, ids, completed) == (sent, sent, sent)
    assert (lines, beside) == (sent // 10, sent // 10)
    assert [line for line in said.splitlines() if "not written" in line or "cannot be stored" in line] == []


def left(link: psycopg.Connection[tuple[int]]) -> int:
    (count,) = link.execute("SELECT count(*) FROM gandy.work_queue").fetchone() or (0,)
    return count
