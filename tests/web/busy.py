"""The shop of the other tests with what is hard to draw: long names, held and parked jobs."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from gandy import Gandy, Run, Train, every
from tests.support.waiting import wait_until
from tests.web.browser import living_shop
from tests.web.conftest import OPERATOR, bearer
from tests.web.shop import Feed, Parcel, make_shop, read_feed, send_parcel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTRACT: Final = """
version = 1

[lifecycle.depot]
database = { env = "DEPOT_DATABASE_URL" }

[[lifecycle.depot.tables]]
name = "scan"
rules = [{ expires = "expires_at_ms", unit = "ms", safety = "Expired scans are read by no one" }]
"""
SCANS: Final = "CREATE TABLE scan (id INTEGER PRIMARY KEY, expires_at_ms INTEGER NOT NULL)"
LONG_ID: Final = "sync-of-the-customer-" + "0123456789" * 17 + "-of-north"  # 200 characters
LONG_GROUP: Final = "warehouse-of-the-north-with-a-long-name-" + "g" * 40
LONG_TRAIN: Final = "recompute_the_balance_of_each_account_of_" + "t" * 60
MANY_WORDS: Final = "the depot counts its stock today, and reads no feed before the evening. " * 4


async def fetch_parcel(parcel: Parcel, run: Run) -> Parcel:
    for number in range(4):
        run.log.info("fetched %s of %s from %s", number, "a-word-without-a-break-" * 6, parcel.address)
    run.log.warning("the address has no number")
    return parcel


async def hand_over(parcel: Parcel) -> str:
    return parcel.address


class DeliverParcel(Train[Parcel, str]):
    """Two junctions."""

    route = (fetch_parcel, hand_over)


def make_busy_shop(url: str, **web: Any) -> Gandy:  # noqa: ANN401 any setting of the section
    """Make the application; `web` are settings of the dashboard."""
    app = make_shop(url, **web)
    app.configure(
        {
            "worker": {"heartbeat_every": timedelta(seconds=1)},  # after which its figures are kept
            "lifecycle": {"contract": os.environ["DEPOT_CONTRACT"]},
        }
    )
    app.register(DeliverParcel)
    app.train(name=LONG_TRAIN)(hand_over)
    app.group(LONG_GROUP, max_active_jobs=2)
    app.group("closed", enabled=False)
    long = app.schedule(LONG_ID, DeliverParcel, Parcel(address="harbour"), every(hours=1), group=LONG_GROUP)
    long.then("after-" + LONG_ID[:190], DeliverParcel, Parcel(address="pier"), group=LONG_GROUP)
    app.schedule("paused", read_feed, Feed("y"), every(minutes=20))
    app.schedule("held", send_parcel, Parcel(address="attic"), every(minutes=5), group="closed")
    return app


@contextmanager
def busy_shop(url: str, folder: Path) -> Iterator[str]:
    """Run it until every page has something to show; gives the address of its dashboard."""
    store, contract = folder / "depot.db", folder / "depot.toml"
    with closing(sqlite3.connect(store)) as link:
        link.executescript(SCANS)
    contract.write_text(CONTRACT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "DEPOT_DATABASE_URL", f"sqlite:///{store}")
        patch.setitem(os.environ, "DEPOT_CONTRACT", str(contract))
        with living_shop(url, make=make_busy_shop) as address:
            with httpx.Client(base_url=f"{address}/api/v1", headers=bearer(OPERATOR), timeout=30) as client:
                _operate(client)
                _wait_for_content(client)
            yield address


def _operate(client: httpx.Client) -> None:
    """Leave deeds in the trail, and entries that wait."""
    client.post(f"/manifests/{LONG_ID}/set", json={"priority": 12, "max_retries": 5}).raise_for_status()
    client.post("/manifests/paused/disable", json={"reason": MANY_WORDS}).raise_for_status()
    client.post(
        "/queue/enqueue", json={"train": "send_parcel", "input": {"address": "roof"}, "group": "closed"}
    )
    client.post("/groups/etl/set", json={"max_active_jobs": 3}).raise_for_status()
    client.post("/lifecycle/sweep", json={"scheduler": "depot"}).raise_for_status()


def _wait_for_content(client: httpx.Client) -> None:
    def items(path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.get(path).json()["items"]
        return found

    wait_until(lambda: items(f"/runs?manifest={LONG_ID}&state=completed"), "a train of two junctions is done")
    wait_until(lambda: items("/dead-letters?train=read_feed")[2:], "a manifest is parked")
    wait_until(lambda: items("/stats"), "there are figures")
    wait_until(lambda: client.get("/lifecycle/growth").json()["items"], "there is a sample")
