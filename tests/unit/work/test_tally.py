"""The thread of a lease writes what the event loop has counted, and keeps what could not be written."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gandy.errors import DatabaseUnreachableError
from gandy.model.run import RunMeasure, TrainState
from gandy.settings import WorkerSettings
from gandy.store.statements import Batch
from gandy.work.lease import LeaseKeeper
from gandy.work.tally import RunTally
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from gandy.store.statements import Operation

SALE = RunMeasure("Sell", None, TrainState.COMPLETED, 7, 0.5, 1.0)
SOON = timedelta(milliseconds=1)


class ForgetfulLink:
    """A database that renews every lease, and refuses the first writes of statistics."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals
        self.written: list[Batch] = []
        self.closed = 0

    def run(self, operation: Operation[Any]) -> Any:  # noqa: ANN401 - the operation's own result
        step = next(operation)
        if not isinstance(step, Batch):
            operation.close()
            return "running", []
        if self._refusals:
            self._refusals -= 1
            raise DatabaseUnreachableError("nowhere", "cut")
        self.written.append(step)
        operation.close()
        return None

    def close(self) -> None:
        self.closed += 1


def keep(link: ForgetfulLink, tally: RunTally) -> None:
    """Renew until the sums are written."""
    loop = asyncio.new_event_loop()
    settings = WorkerSettings(heartbeat_every=SOON)
    keeper = LeaseKeeper(
        link, settings, loop=loop, busy=lambda: (0, None), on_lost=print, on_drain=print, tally=tally
    )
    keeper.start("worker-1")
    wait_until(lambda: bool(link.written), "the sums are written")
    keeper.stop()
    wait_until(lambda: link.closed > 0, "the thread has ended")
    loop.close()


def test_what_could_not_be_written_is_written_with_the_next_renewal() -> None:
    tally, link = RunTally("shop"), ForgetfulLink(refusals=2)
    tally.count([SALE, SALE])

    keep(link, tally)

    [batch] = link.written
    [row] = batch.rows
    assert batch.shared == {"owner": "shop", "worker_id": "worker-1"}
    assert tuple(row)[:4] == ("Sell", 0, tuple(row)[2], 2)
    assert tally.take() == {}


def test_sums_that_are_given_back_are_added_to_later_ones() -> None:
    tally = RunTally("shop")
    tally.count([SALE])
    taken = tally.take()
    tally.count([SALE])

    tally.give_back(taken)

    [sums] = tally.take().values()
    assert sums.completed == 2
