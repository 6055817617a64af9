"""The trains of the demo: one of several junctions, one that fails, one that is cancelled."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gandy.app import Gandy
from gandy.rules.schedules import every
from gandy.train.base import Train
from gandy.train.failure import End
from gandy.train.run import Run  # noqa: TC001 - annotations of junctions are read at run time

RETRY_DELAY: Final = timedelta(seconds=2)
PAGES: Final = 200


@dataclass(frozen=True)
class Month:
    """The month to close."""

    name: str
    invoices: int


@dataclass(frozen=True)
class Invoices:
    """The output of the first junction."""

    amounts: tuple[int, ...]


@dataclass(frozen=True)
class Total:
    """The output of the second junction."""

    amount: int


@dataclass(frozen=True)
class Report:
    """The output of the train."""

    text: str


async def load_invoices(month: Month, run: Run) -> Invoices | End[Report]:
    """Load the invoices one by one; a month without invoices ends the train here."""
    if month.invoices == 0:
        return End(Report(f"{month.name}: nothing to close"))
    amounts = []
    for number in range(1, month.invoices + 1):
        await asyncio.sleep(0.01)
        amounts.append(number * 7 % 90 + 10)
        run.progress(number, month.invoices)
    run.log.info("%d invoices of %s loaded", len(amounts), month.name)
    return Invoices(tuple(amounts))


def sum_up(invoices: Invoices, run: Run) -> Total:
    """Add them up; a junction that is not async runs in a thread."""
    time.sleep(0.03)
    total = sum(invoices.amounts)
    run.log.info("the sum is %d", total)
    return Total(total)


async def write_report(month: Month, total: Total) -> Report:
    """Write the report; the month is the train's input, the total comes from the previous junction."""
    await asyncio.sleep(0.02)
    return Report(f"{month.name}: {total.amount}")


@dataclass(frozen=True)
class Picture:
    """A picture to shrink."""

    name: str


@dataclass(frozen=True)
class Feed:
    """A feed to import."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """A site to crawl."""

    name: str


async def shrink_picture(picture: Picture, run: Run) -> str:
    """Simulate a short job."""
    await asyncio.sleep(random.uniform(0.02, 0.15))  # noqa: S311 - not security-relevant
    run.log.info("%s is small now", picture.name)
    return f"small-{picture.name}"


async def import_feed(feed: Feed, run: Run) -> int:
    """Fail on a broken line; the job is retried, then becomes a dead letter."""
    for number, line in enumerate(feed.lines, 1):
        await asyncio.sleep(0.01)
        run.log.info("line %d: %s", number, line)
        if "=" not in line:
            raise ValueError(f"line {number} is not KEY=VALUE")
    return len(feed.lines)


async def crawl_site(site: Site, run: Run) -> int:
    """Simulate a long job, which the demo cancels."""
    for page in range(1, PAGES + 1):
        await asyncio.sleep(0.05)
        run.progress(page, PAGES)
        if page % 10 == 0:
            run.log.info("%d pages of %s read", page, site.name)
    return PAGES


class CloseMonth(Train[Month, Report]):
    """Three junctions on one route; their parameters are filled by type."""

    route = (load_invoices, sum_up, write_report)


def make_demo(database: str, *, port: int) -> Gandy:
    """Create the application, a new one per call, so that tests share no state."""
    app = Gandy(
        "demo",
        database,
        worker={
            "slots": 8,
            "poll_every": timedelta(milliseconds=500),
            "shutdown_grace": timedelta(seconds=5),
        },
        web={"port": port},
    )
    app.register(CloseMonth)
    app.train(shrink_picture)
    app.train(max_retries=2, retry_delay=RETRY_DELAY)(import_feed)
    app.train(crawl_site)
    june = app.schedule("close-june", CloseMonth, Month("June", 12), every(seconds=2))
    june.then("shrink-june", shrink_picture, Picture("june.png"))
    return app
