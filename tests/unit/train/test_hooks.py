from __future__ import annotations

import logging
from typing import Any

import pytest

from gandy.errors import UnknownHookError
from gandy.model.run import Completed
from gandy.train.hooks import HOOK_NAMES, HookEvent, HookName, Hooks


def event(name: HookName = "completed") -> HookEvent:
    return HookEvent(name=name, train="CloseMonth", run_id=7, attempt=1, outcome=Completed(1))


async def test_hooks_of_an_event_are_called_once_each_in_order() -> None:
    hooks, told = Hooks(), []

    @hooks.on("completed")
    def first(event: HookEvent) -> None:
        told.append(("first", event.run_id))

    @hooks.on("completed")
    async def second(event: HookEvent) -> None:
        told.append(("second", event.run_id))

    @hooks.on("failed")
    def never(event: HookEvent) -> None:
        told.append(("never", event.run_id))

    await hooks.fire(event())

    assert told == [("first", 7), ("second", 7)]


async def test_what_a_hook_raises_is_logged_and_the_others_are_still_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks, told = Hooks(), []

    @hooks.on("completed")
    def broken(event: HookEvent) -> None:
        raise ValueError("broken hook")

    @hooks.on("completed")
    async def broken_too(event: HookEvent) -> None:
        raise ValueError("broken hook")

    @hooks.on("completed")
    def fine(event: HookEvent) -> None:
        told.append(event.name)

    with caplog.at_level(logging.ERROR, "gandy.hooks"):
        await hooks.fire(event())

    assert told == ["completed"]
    assert len(caplog.records) == 2
    assert all(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("name", HOOK_NAMES)
async def test_nothing_happens_where_nobody_listens(name: HookName) -> None:
    hooks = Hooks()

    assert not hooks.wants(name)
    await hooks.fire(event(name))
    hooks.on(name)(lambda _: None)
    assert hooks.wants(name)


def test_an_unknown_event_is_refused() -> None:
    wrong: Any = "finished"
    with pytest.raises(UnknownHookError, match="started, completed, failed, cancelled, dead_lettered"):
        Hooks().on(wrong)
