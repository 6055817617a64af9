"""Text that a database cannot hold: what it stands in keeps its type, its trace and the rest of its words."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from gandy import Gandy
from tests.support.world import OWNER

if TYPE_CHECKING:
    from tests.support.world import World

INNOCENT = 30


class UnluckyError(Exception):
    """What the hostile job raises."""


@pytest.mark.parametrize(
    "text", ["caf\udce9", "a\x00b", "\ud83d", "\udce9\x00" * 50], ids=["listdir", "nul", "half", "many"]
)
async def test_a_failure_whose_text_cannot_be_stored_harms_only_itself(
    migrated_url: str, world: World, text: str
) -> None:
    executed: Counter[int] = Counter()
    app = Gandy(OWNER, migrated_url)
    app.use_clock(world.clock)

    @app.train(retry=False)
    async def innocent(number: int) -> None:
        executed[number] += 1

    @app.train(retry=False)
    async def unlucky() -> None:
        logging.getLogger("shop").warning("it reads %s", text)
        raise UnluckyError(f"begins {text} ends")

    async with app:
        await app.enqueue_many(innocent, range(INNOCENT))
        await app.enqueue(unlucky)
        ended = list(await asyncio.gather(app.work(asyncio.Event(), until_idle=True), return_exceptions=True))

    assert (ended, dict(executed)) == ([0], dict.fromkeys(range(INNOCENT), 1))
    [failed] = world.rows(
        "SELECT failure_exception, failure_reason, stack_trace FROM metadata WHERE train_state = 'failed'"
    )
    assert failed["failure_exception"].endswith("UnluckyError")
    assert failed["failure_reason"].startswith("begins ")
    assert failed["failure_reason"].endswith(" ends")
    assert "raise UnluckyError" in failed["stack_trace"]
