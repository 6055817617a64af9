"""An application for the tests of the web face: it succeeds, fails, keeps secrets and takes its time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretStr

from gandy import Gandy, Run, cron, every

if TYPE_CHECKING:
    from collections.abc import Mapping

EVIL = "<script>alert('evil')</script>"
PASSWORD = "correct horse battery staple"


class Parcel(BaseModel):
    """Something to send."""

    address: str
    weight: int = 1


class Account(BaseModel):
    """Somewhere to log in."""

    user: str
    password: SecretStr


@dataclass(frozen=True)
class Feed:
    """Something that cannot be read."""

    line: str


async def send_parcel(parcel: Parcel, run: Run) -> str:
    run.log.info("sent to %s", parcel.address)
    run.progress(1, 1)
    return f"sent to {parcel.address}"


async def log_in(account: Account) -> str:
    return account.user


async def read_feed(feed: Feed) -> int:
    raise ValueError(f"cannot read {EVIL}: {feed.line}")


async def wait_for_ever(run: Run) -> None:
    run.progress(3, 10)
    await asyncio.Event().wait()


def make_shop(url: str, **web: Any) -> Gandy:  # noqa: ANN401 any setting of the section
    """Make the application; `web` are settings of the dashboard."""
    settings: Mapping[str, Mapping[str, object]] = {
        "web": {"port": 0, **web},
        "worker": {
            "slots": 4,
            "poll_every": timedelta(milliseconds=100),
            "shutdown_grace": timedelta(seconds=1),  # one of its jobs never ends
        },
    }
    app = Gandy("shop", url, **settings)
    for function in (send_parcel, log_in, wait_for_ever):
        app.train(function)
    app.train(max_retries=1)(read_feed)
    app.group("etl", max_active_jobs=4, priority=20)
    extract = app.schedule("extract", send_parcel, Parcel(address="harbour"), every(hours=1), group="etl")
    load = extract.then("load", send_parcel, Parcel(address="shelf"))
    load.then("report", send_parcel, Parcel(address="office"))
    extract.then("delta-7", send_parcel, Parcel(address="attic"), dormant=True)
    app.schedule("nightly", send_parcel, Parcel(address="depot"), cron("0 3 * * *", timezone="Europe/Berlin"))
    app.schedule("bad/feed", read_feed, Feed("x"), every(hours=1), max_retries=1)
    return app


async def populate(app: Gandy) -> None:
    """Let an open application do some work: runs, failures, dead letters, and something for later."""
    await app.seed()
    await app.enqueue(send_parcel, Parcel(address="Oslo", weight=3))
    await app.enqueue(log_in, Account(user="ada", password=SecretStr(PASSWORD)))
    await app.enqueue(read_feed, Feed("a"))
    await app.enqueue(read_feed, Feed("b"))
    await app.work(asyncio.Event(), until_idle=True)
    await app.enqueue(send_parcel, Parcel(address="Rome"), delay=timedelta(days=2))
    await app.trigger("nightly", delay=timedelta(hours=2))
