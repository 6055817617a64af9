from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.history import Past

DAY = timedelta(days=1)


@pytest.mark.parametrize("status", ["retried", "acknowledged"])
async def test_a_resolved_letter_goes_thirty_days_after_its_resolution(past: Past, status: str) -> None:
    now = past.world.clock.now
    past.letter(status=status, resolved_at=now - 30 * DAY - timedelta(seconds=1))
    young = past.letter(status=status, resolved_at=now - 30 * DAY)

    result = await past.dead_letter_cleanup()

    assert dict(result.rows) == {"dead_letter": 1}
    assert past.ids("dead_letter") == {young}


async def test_a_letter_that_awaits_a_person_never_goes(past: Past) -> None:
    waiting = past.letter(
        status="awaiting_intervention", dead_lettered_at=past.world.clock.now - timedelta(days=3650)
    )

    await past.dead_letter_cleanup(dead_letters=timedelta(seconds=1))

    assert past.ids("dead_letter") == {waiting}


async def test_a_letter_stays_while_its_requeued_entry_waits(past: Past) -> None:
    letter = past.letter(status="retried", resolved_at=past.world.clock.now - 90 * DAY)
    entry = past.entry(status="queued", dead_letter_id=letter)

    await past.dead_letter_cleanup()
    assert past.ids("dead_letter") == {letter}

    change = "UPDATE work_queue SET status = 'dispatched', train_state = 'pending' WHERE id = ?"
    past.world.rows(change, entry)
    await past.dead_letter_cleanup()
    assert past.ids("dead_letter") == set()


async def test_the_span_is_the_setting(past: Past) -> None:
    letter = past.letter(status="retried", resolved_at=past.world.clock.now - 2 * DAY)

    await past.dead_letter_cleanup(dead_letters=3 * DAY)
    assert past.ids("dead_letter") == {letter}
    await past.dead_letter_cleanup(dead_letters=DAY)
    assert past.ids("dead_letter") == set()
