from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gandy.events import Event, EventBus, HintRepaired, LeaseLost, WriteFenced

if TYPE_CHECKING:
    import pytest

REPAIRED = HintRepaired(count=2)
LOST = LeaseLost(worker_id="w1", runs=3)


def test_a_subscriber_hears_its_kind_of_event_and_no_other() -> None:
    bus, heard = EventBus(), list[HintRepaired]()
    bus.subscribe(HintRepaired, heard.append)

    bus.emit(LOST)
    bus.emit(REPAIRED)

    assert heard == [REPAIRED]


def test_who_subscribes_to_the_base_hears_everything() -> None:
    bus, heard = EventBus(), list[Event]()
    bus.subscribe(Event, heard.append)

    bus.emit(LOST)
    bus.emit(REPAIRED)

    assert heard == [LOST, REPAIRED]


def test_a_subscriber_that_raises_is_logged_and_the_others_still_hear(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus, heard = EventBus(), list[Event]()

    def broken(event: LeaseLost) -> None:
        raise RuntimeError(event.worker_id)

    bus.subscribe(LeaseLost, broken)
    bus.subscribe(LeaseLost, heard.append)

    with caplog.at_level(logging.ERROR, "gandy.events"):
        bus.emit(LOST)

    assert heard == [LOST]
    assert "a subscriber to LeaseLost raised" in caplog.text
    assert "RuntimeError: w1" in caplog.text


def test_a_subscription_can_be_ended_even_by_the_subscriber_itself() -> None:
    bus, heard = EventBus(), list[Event]()

    def once(event: LeaseLost) -> None:
        heard.append(event)
        end()

    end = bus.subscribe(LeaseLost, once)
    bus.emit(LOST)
    bus.emit(LOST)

    assert heard == [LOST]


def test_no_event_and_no_subscription_is_lost_between_threads() -> None:
    bus, heard = EventBus(), list[Event]()
    bus.subscribe(WriteFenced, heard.append)

    def subscribe_and_emit(number: int) -> None:
        bus.subscribe(LeaseLost, heard.append)
        bus.emit(WriteFenced(statement="finish", count=number))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(subscribe_and_emit, range(200)))
    assert len(heard) == 200

    bus.emit(LOST)

    assert heard.count(LOST) == 200
