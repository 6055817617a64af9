"""What goes wrong in production, in seconds: nothing is lost, and work goes on by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.store.drivers.opening import migrate
from tests.journeys.apps.witness import Job, app, tick_off
from tests.journeys.faults.measuring import measure, stage_on
from tests.journeys.faults.scenarios import (
    WAYS,
    fill_the_disk,
    fill_the_disk_of_the_server,
    freeze_a_worker,
    freeze_the_database,
    hold_idle_connections,
    step_a_clock,
)
from tests.journeys.faults.stage import SHORT
from tests.journeys.processes import fleet
from tests.support import postgres_found
from tests.support.postgres import ThrowawayServer
from tests.support.proxy import running_proxy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.journeys.faults.scenarios import Fault

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(240), pytest.mark.xdist_group("faults")]


@pytest.fixture(scope="module")
def server() -> Iterator[ThrowawayServer]:
    """A server that these tests may hurt."""
    server = ThrowawayServer(postgres_found.newest(), settings={"max_connections": "400"})
    yield server
    server.close()


@pytest.fixture
def url(server: ThrowawayServer) -> Iterator[str]:
    """A migrated database of it."""
    template = server.template("migrated", lambda url: (migrate(url), None)[1])
    with server.database(template) as url:
        yield url


@pytest.mark.parametrize(
    ("fault", "most_repeated"),
    [
        pytest.param(freeze_the_database, 0, id="a frozen database costs nobody its run"),
        pytest.param(step_a_clock, 0, id="a server whose clock jumps by days changes nothing"),
        pytest.param(hold_idle_connections, 0, id="300 idle connections change nothing"),
        pytest.param(freeze_a_worker, 200, id="a frozen worker's runs are taken over"),
        pytest.param(fill_the_disk_of_the_server, 0, id="a server without room costs nobody its run"),
    ],
)
def test_no_job_is_lost_and_work_goes_on(
    fault: Fault, most_repeated: int, server: ThrowawayServer, url: str, tmp_path: Path
) -> None:
    with stage_on(url, tmp_path, SHORT, server, way=WAYS.get(fault, "direct")) as stage:
        toll = measure(stage, "", fault)

        assert toll.lost == 0, stage.ships.logs()
        assert toll.repeated <= most_repeated, stage.ships.logs()
        assert toll.recovered_after is not None, f"{toll}\n{stage.ships.logs()}"


def test_a_full_disk_stops_work_and_loses_none_of_it(sqlite_url: str, tmp_path: Path) -> None:
    migrate(sqlite_url)
    with stage_on(sqlite_url, tmp_path, SHORT) as stage:
        toll = measure(stage, "", fill_the_disk)

        assert "full" in stage.ships.logs(), "it was noticed, and said"
        assert toll.lost == 0, stage.ships.logs()
        assert toll.recovered_after is not None, f"{toll}\n{stage.ships.logs()}"


def test_a_listening_connection_that_went_silent_is_found_out_and_made_anew(
    server: ThrowawayServer, url: str, tmp_path: Path
) -> None:
    with (
        running_proxy(server.folder) as proxy,
        fleet(
            url,
            tmp_path,
            GANDY_DATABASE_NOTIFY_URL=proxy.url(url),
            GANDY_DATABASE_LISTEN_CHECK_EVERY="500ms",
        ) as ships,
    ):
        app.configure({"database": {"url": url}})
        ships.start_worker()
        with app as sync:
            sync.enqueue(tick_off, Job(number=1))
            wait_until(lambda: proxy.accepted == 1, f"the worker listens\n{ships.logs()}")
            wait_until(lambda: ships.witnessed("end"), "it works")
            assert proxy.go_silent() == 1
            sync.enqueue(tick_off, Job(number=2))
            wait_until(lambda: len(ships.witnessed("end")) == 2, "what nobody announced is found by looking")
            wait_until(lambda: proxy.accepted >= 2, f"the silence is noticed\n{ships.logs()}")
            sync.enqueue(tick_off, Job(number=3))
            wait_until(lambda: len(ships.witnessed("end")) == 3, "work goes on")
