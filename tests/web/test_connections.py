"""Places of connections, by a clock that the test moves; every sequence is held against the rules."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass, field

import pytest

from gandy.errors import PortTakenError
from gandy.settings import WebSettings
from gandy.web.serving import ConnectionLimits, ConnectionStep, Limits, Port, most_connections

LIMITS = Limits(connections=4, head=10, body=30, answer=20)


@dataclass(eq=False)
class Client:
    """A connection at a step."""

    step: ConnectionStep = ConnectionStep.HEAD
    request: object = field(default_factory=object)
    is_closed: bool = False

    def abort(self) -> None:
        self.is_closed = True


class Server:
    """Places, and the time."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.now = 100.0
        self.places = ConnectionLimits(limits, lambda: self.now)
        self.clients: list[Client] = []

    def connect(self, step: ConnectionStep = ConnectionStep.HEAD) -> Client:
        client = Client()
        self.places.enter(client)
        client.step = step
        self.clients.append(client)
        return client

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.now += 1
            self.places.look()

    @property
    def open(self) -> list[Client]:
        return [client for client in self.clients if not client.is_closed]


@pytest.mark.parametrize(
    ("step", "longest"), [(ConnectionStep.HEAD, 10), (ConnectionStep.BODY, 30), (ConnectionStep.ANSWER, 20)]
)
def test_a_client_that_stops_at_a_step_is_closed_after_its_time(step: ConnectionStep, longest: int) -> None:
    server = Server()
    client = server.connect(step)

    server.wait(longest)
    assert not client.is_closed
    server.wait(2)
    assert client.is_closed


def test_work_of_the_application_is_not_cut_here() -> None:
    server = Server()
    client = server.connect(ConnectionStep.WORK)

    server.wait(1000)

    assert not client.is_closed


def test_the_next_request_of_a_connection_has_its_own_time() -> None:
    server = Server()
    client = server.connect()

    for _ in range(5):
        server.wait(8)
        client.step = ConnectionStep.WORK
        server.wait(1)
        client.step, client.request = ConnectionStep.HEAD, object()

    assert not client.is_closed


def test_the_one_that_waits_longest_for_its_client_gives_way() -> None:
    server = Server()
    working = server.connect(ConnectionStep.WORK)
    server.wait(1)
    first = server.connect()
    server.wait(1)
    others = [server.connect(), server.connect()]

    new = server.connect()

    assert [each.is_closed for each in (working, first, *others, new)] == [False, True, False, False, False]


def test_a_new_one_is_refused_where_every_other_is_being_worked_on() -> None:
    server = Server()
    working = [server.connect(ConnectionStep.WORK) for _ in range(LIMITS.connections)]

    new = server.connect()

    assert new.is_closed
    assert not any(each.is_closed for each in working)


@pytest.mark.parametrize("seed", range(20))
def test_any_crowd_stays_within_its_places_and_none_is_closed_early(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # a sequence to replay
    server = Server()
    for _ in range(300):
        server.now += chance.choice([0, 0, 1])
        if chance.random() < 0.5:
            crowded = len(server.open) >= LIMITS.connections
            before = server.open
            server.connect(chance.choice(list(ConnectionStep)))
            lost = [each for each in before if each.is_closed]
            assert len(lost) <= int(crowded)
            assert all(each.step is not ConnectionStep.WORK for each in lost)
        elif server.open:
            client = chance.choice(server.open)
            if chance.random() < 0.3:
                server.places.leave(client)
                server.clients.remove(client)
            else:
                client.step = chance.choice(list(ConnectionStep))
        server.places.look()
        assert len(server.open) <= LIMITS.connections


def test_a_server_takes_a_part_of_the_descriptors() -> None:
    assert 16 <= most_connections() <= 256


def test_a_port_is_taken_before_services_start_and_bound_again_for_a_restarted_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        settings = WebSettings(port=probe.getsockname()[1])
    port = Port(settings)
    port.bind()

    with pytest.raises(PortTakenError):
        Port(settings).bind()
    with port.take() as first:
        assert first.getsockname()[1] == settings.port
        with pytest.raises(PortTakenError):
            port.take()
    with port.take() as again:
        assert again.getsockname()[1] == settings.port

    port.bind()
    port.close()
    with port.take() as free:
        assert free.getsockname()[1] == settings.port
