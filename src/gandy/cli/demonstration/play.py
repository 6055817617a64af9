"""The script of the demo: jobs are queued, run, fail and are cancelled; the runs are counted at the end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Final

from gandy.app.web import has_web
from gandy.cli.demonstration.trains import (
    CloseMonth,
    Feed,
    Month,
    Picture,
    Site,
    crawl_site,
    import_feed,
    make_demo,
    shrink_picture,
)
from gandy.cli.output import say
from gandy.cli.status_line import status_shown
from gandy.desk.audit import local_operator
from gandy.desk.cancelling import CancelDesk
from gandy.desk.runs import RunInsights
from gandy.errors import JobCancelledError, MissingExtraError
from gandy.model.owners import OneOwner
from gandy.settings.urls import mask_url
from gandy.store.manifests import read_now

if TYPE_CHECKING:
    from gandy.app import Gandy
    from gandy.cli.status_line import StatusLine
    from gandy.desk.runs import TrainTally
    from gandy.train.hooks import HookEvent

PAUSE: Final = 0.4
CANCEL_AFTER: Final = 0.7
MONTHS: Final = ("January", "February", "March", "April", "May", "June")


@dataclass(frozen=True, slots=True)
class Ended:
    """The database of a demo and its run counts."""

    database: str
    tallies: tuple[TrainTally, ...]


async def play(database: str, stop: asyncio.Event, *, port: int, line: StatusLine | None) -> Ended:
    """Run the demo until the event is set, then count its runs."""
    opened_by = f"gandy --database {mask_url(database)} --owner demo open"
    app = make_demo(database, port=port)
    _tell(app)
    _pass_on("gandy.web")
    if not has_web():
        say(str(MissingExtraError("the dashboard", "web")))
    async with app:
        since = await app.database.read(read_now())
        async with app.running(), status_shown(app, line, opened_by=opened_by):
            cancelled = asyncio.create_task(_cancel_a_crawl(app))
            await _keep_busy(app, stop)
            await cancelled
        return Ended(database, await RunInsights(app.database, OneOwner(app.name)).tally(since))


async def _keep_busy(app: Gandy, stop: asyncio.Event) -> None:
    await app.enqueue(import_feed, Feed(("colour=blue", "size=7", "broken line")))
    for number in count():
        month = Month(MONTHS[number % len(MONTHS)], invoices=number % 5 * 3)
        await app.enqueue(CloseMonth, month)
        await app.enqueue_many(shrink_picture, [Picture(f"{number}-{part}.png") for part in "abc"])
        if await _is_over(stop):
            return


async def _cancel_a_crawl(app: Gandy) -> None:
    """Cancel a long run, as `gandy runs cancel` does."""
    begun = asyncio.Event()
    app.on("started")(lambda event: begun.set() if event.train == crawl_site.__name__ else None)
    job = await app.enqueue(crawl_site, Site("example.org"))
    await begun.wait()
    await asyncio.sleep(CANCEL_AFTER)
    owners = OneOwner(app.name)
    desk = CancelDesk(app.database, local_operator("cli"), app.settings, owners=owners)
    await desk.jobs([job.id])
    with suppress(JobCancelledError):
        await job.result()


async def _is_over(stop: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(stop.wait(), PAUSE)
    except TimeoutError:
        return False
    return True


class _Said(logging.Handler):
    """Prints log messages on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message without level and time."""
        say(record.getMessage())


def _pass_on(name: str) -> None:
    logger = logging.getLogger(name)
    logger.setLevel(logging.INFO)
    logger.addHandler(_Said())
    logger.propagate = False


def _tell(app: Gandy) -> None:
    """Print a line for every run that ends."""

    def ended(event: HookEvent) -> None:
        timings = event.outcome.timings if event.outcome else ()
        took = timedelta(microseconds=sum(timing.duration_ns for timing in timings) // 1_000)
        route = " -> ".join(timing.junction for timing in timings)
        say(f"run {event.run_id:<4} {event.name:<9} {event.train:<14} {took / _MILLISECOND:4.0f} ms {route}")

    app.on("completed")(ended)
    app.on("failed")(ended)
    app.on("cancelled")(ended)


_MILLISECOND: Final = timedelta(milliseconds=1)
