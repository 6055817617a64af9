"""A crowd at the web server's door: schedules of the same process stay on time, and probes are answered."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from tests.journeys.processes import SCALED, Fleet, fleet
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN: Final = "a-token-of-the-crowd"
HALF_OPEN, SLOW, POLLING = 1_000, 200, 100
#: The crowd keeps two cores busy until then; the long form watches for longer.
STRIKES: Final = 20 if os.environ.get("GANDY_TEST_FULL_JOURNEYS") else 3
LATEST: Final = 3 * 2.0  # three times the lease
PATIENCE: Final = 20.0  # of clients, which share their cores with the server
DESCRIPTORS: Final = 1_024  # of the server, as most systems have it
assert SCALED["GANDY_WORKER_LEASE_FOR"] == "2s"

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("crowded-door")]


@contextmanager
def descriptors(number: int) -> Iterator[None]:
    """This process may open so many, and what it starts meanwhile too."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, before[1]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def connect(port: int, said: bytes) -> socket.socket | None:
    """A client that says this and reads nothing; None where the server has closed the door already."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_024)
    client.settimeout(5)
    try:
        client.connect(("127.0.0.1", port))
        client.sendall(said)
    except OSError:
        client.close()
        return None
    return client


class Crowd:
    """Clients of every unpleasant kind."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._port = port
        self._stack = stack
        self.answered = 0

    def push(self) -> None:
        """Open what is half open, and what reads slowly."""
        head = b"POST /api/v1/queue HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        asked = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        page = asked.encode()
        for said in [head] * HALF_OPEN + [page * 20] * SLOW:
            client = connect(self._port, said)
            if client is not None:
                self._stack.callback(client.close)

    async def poll(self, client: httpx.AsyncClient, is_over: asyncio.Event) -> None:
        """Look at the runs over and over, as a dashboard does."""
        while not is_over.is_set():
            try:
                answer = await client.get("/api/v1/runs", headers={"Authorization": f"Bearer {TOKEN}"})
            except httpx.HTTPError:
                continue
            self.answered += answer.status_code == httpx.codes.OK
            assert answer.status_code in {httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE}, answer.text


def strikes(ships: Fleet) -> list[tuple[float, int, float]]:
    """What the jobs wrote down themselves: due, attempt, ran."""
    found = [line.split()[1:] for line in ships.witnessed("strike")]
    return [(float(due), int(attempt), float(ran)) for due, attempt, ran in found]


async def crowd_until(ships: Fleet, crowd: Crowd, url: str, number: int) -> list[int]:
    """Poll until the schedule has struck so many times more; the probes meanwhile."""
    is_over = asyncio.Event()
    probes: list[int] = []
    first = len(strikes(ships))
    many = httpx.Limits(max_connections=POLLING)
    async with (
        asyncio.timeout(120),
        httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=many) as dashboards,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE) as probe,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(POLLING):
            group.create_task(crowd.poll(dashboards, is_over))
        while len(strikes(ships)) < first + number or not crowd.answered:
            probes.append((await probe.get("/healthz")).status_code)
        is_over.set()
    return probes


def test_schedules_stay_on_time_and_probes_are_answered(database_url: str, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        ships = stack.enter_context(fleet(database_url, tmp_path, GANDY_WEB_TOKEN=TOKEN))
        ships.app = "tests.journeys.apps.punctual:app"
        with descriptors(DESCRIPTORS):
            ships.start("migrate").wait()
            ships.start("up", "--port", str(port))
        wait_until(lambda: len(strikes(ships)) >= 2, f"the schedule begins\n{ships.logs()}", within=60)
        stack.enter_context(descriptors(8_192))
        crowd = Crowd(port, stack)
        crowd.push()

        probes = asyncio.run(crowd_until(ships, crowd, url, STRIKES))

    marks = strikes(ships)
    assert set(probes) == {200}
    assert {attempt for _, attempt, _ in marks} == {1}
    assert len({due for due, _, _ in marks}) == len(marks)
    assert max(ran - due for due, _, ran in marks) < LATEST
