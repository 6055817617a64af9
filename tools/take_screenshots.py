"""Takes the pictures of the documentation, of an application that has been busy for a while.

python -m tools.take_screenshots          # all
python -m tools.take_screenshots graph    # some
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
import sqlite3
import sys
import tempfile
import threading
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from gandy import Days, Gandy, Run, Train, cron, every
from gandy.lifecycle import audit
from gandy.model.run import TrainState
from gandy.rules.tallies import Tally
from tests.support.waiting import wait_until
from tests.web.browser import chromium, sign_in
from tests.web.conftest import OPERATOR, bearer

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREENSHOTS: Final = Path(__file__).parents[1] / "docs" / "screenshots"
BUSY_SECONDS: Final = 75
WIDE: Final = 1360
PHONE: Final = 390
TALL: Final = {"tables": 1500, "manifest-set": 1360}
#: Pictures of a part of a page.
PARTS: Final = {"growth": "section[aria-labelledby=growth]"}
#: Pictures of one element alone.
ELEMENTS: Final = {"graph": "section.card:has(.graph)"}
HIDE_PATHS: Final = """root => document.querySelectorAll("pre").forEach(
    each => { each.textContent = each.textContent.replaceAll(root, "/srv/billing"); }
)"""
ADD_TALLY: Final = """
INSERT OR IGNORE INTO run_tally (at, owner, worker_id, train_name, manifest_id, completed, failed, cancelled,
    longest_wait_seconds, longest_seconds, waits, durations)
SELECT strftime('%Y-%m-%dT%H:%M', 'now', :shift) || ':00.000000Z', owner, 'earlier', name, id, :completed,
    :failed, 0, :longest_wait, :longest, :waits, :durations FROM manifest WHERE id = :manifest_id
"""
REPEAT_SAMPLES: Final = """
INSERT OR IGNORE INTO table_sample (owner, scheduler, table_name, at, is_daily, rows, bytes, lag_seconds)
SELECT owner, scheduler, table_name, strftime('%Y-%m-%dT%H:%M:%f', at, -:hours || ' hours') || '000Z', 0,
    CAST(rows * (1 - :hours / 200.0) AS INTEGER), CAST(bytes * (1 - :hours / 260.0) AS INTEGER), lag_seconds
FROM table_sample WHERE at > strftime('%Y-%m-%dT%H:%M:%f', 'now', '-30 minutes')
"""
CONTRACT: Final = Path(__file__).parents[1] / "examples" / "statestore" / "lifecycle.toml"


@dataclass(frozen=True)
class Month:
    """The month to close."""

    name: str
    invoices: int


@dataclass(frozen=True)
class Invoices:
    """What was loaded."""

    amounts: tuple[int, ...]


@dataclass(frozen=True)
class Report:
    """What comes of it."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table to copy."""

    name: str


@dataclass(frozen=True)
class Feed:
    """A feed of a supplier."""

    supplier: str
    lines: tuple[str, ...]


async def load_invoices(month: Month, run: Run) -> Invoices:
    """Load one page after the other."""
    for number in range(month.invoices):
        await asyncio.sleep(0.02)
        run.progress(number + 1, month.invoices)
    run.log.info("%d invoices of %s loaded", month.invoices, month.name)
    return Invoices(tuple(range(month.invoices)))


async def sum_up(invoices: Invoices, run: Run) -> int:
    """Add them up."""
    await asyncio.sleep(0.25)
    run.log.info("the sum is %d", sum(invoices.amounts))
    return sum(invoices.amounts)


async def write_report(month: Month, total: int, run: Run) -> Report:
    """Write the report."""
    await asyncio.sleep(0.1)
    run.log.info("written to reports/%s.pdf", month.name.lower())
    return Report(f"{month.name}: {total}")


class CloseMonth(Train[Month, Report]):
    """Three junctions."""

    route = (load_invoices, sum_up, write_report)


async def copy_table(table: Table, run: Run) -> int:
    """Copy a table, page by page."""
    total = random.randint(20, 120)  # noqa: S311 how long work takes is no secret
    for page in range(total):
        await asyncio.sleep(0.05)
        run.progress(page + 1, total)
    run.log.info("%s: %d pages copied", table.name, total)
    return total


async def import_feed(feed: Feed, run: Run) -> int:
    """Read a feed; some are broken."""
    for number, line in enumerate(feed.lines, 1):
        run.log.info("line %d: %s", number, line)
        if "=" not in line:
            raise ValueError(f"line {number} of {feed.supplier} is not KEY=VALUE: {line!r}")
    return len(feed.lines)


async def check_count(pages: int, run: Run) -> None:
    """Compare a count with what the source says."""
    run.log.info("%d pages, as the source says", pages)


def make_billing(url: str, port: int) -> Gandy:
    """Make the application of the pictures."""
    app = Gandy(
        "billing",
        url,
        web={"port": port, "token": OPERATOR},
        worker={"slots": 12},
        lifecycle={"contract": str(CONTRACT)},
    )
    app.register(CloseMonth)
    app.train(copy_table)
    app.train(check_count)
    app.train(max_retries=2, retry_delay=timedelta(seconds=1))(import_feed)
    app.group("etl", max_active_jobs=3, priority=20)
    app.group("reports", priority=5)
    app.group("archive", enabled=False)
    weekend = Days.on("saturday", "sunday")
    users = app.schedule("extract-users", copy_table, Table("users"), every(seconds=20), group="etl")
    orders = app.schedule("extract-orders", copy_table, Table("orders"), every(seconds=15), group="etl")
    merged = app.schedule(
        "merge-orders", copy_table, Table("orders_merged"), after=[users, orders], group="etl"
    )
    orders.then("check-orders", check_count, pass_output=True, group="etl")
    users.then("page-operator", import_feed, Feed("users", ("late=1",)), on="failure", group="etl")
    merged.then("tidy-staging", copy_table, Table("staging"), on="end", group="etl")
    merged.then("close-march", CloseMonth, Month("March", 40), group="reports")
    merged.then("load-warehouse", copy_table, Table("warehouse"), group="etl")
    users.then("load-accounts", copy_table, Table("accounts"), group="etl")
    orders.then("delta-returns", copy_table, Table("returns"), dormant=True, group="etl")
    app.schedule(
        "nightly-report",
        CloseMonth,
        Month("April", 30),
        cron("0 3 * * *", timezone="Europe/Berlin"),
        group="reports",
        exclude=weekend,
    )
    app.schedule("import-acme", import_feed, Feed("acme", ("price=7", "broken")), every(minutes=1))
    names = ("invoices", "payments", "refunds", "stock")
    app.schedule_many("sync", copy_table, {name: Table(name) for name in names}, every(seconds=30))
    return app


def make_statestore(path: Path) -> None:
    """Make the tables that the contract is about."""
    os.environ["STATESTORE_DATABASE_URL"] = f"sqlite:///{path}"
    with closing(sqlite3.connect(path)) as link:
        link.executescript((CONTRACT.parent / "schema.sqlite.sql").read_text(encoding="utf-8"))


def expire(path: Path, rows: int) -> None:
    """Let rows of the state store expire."""
    past = (datetime.now(UTC) - timedelta(minutes=3)).timestamp() * 1000
    with closing(sqlite3.connect(path, timeout=10)) as link, link:
        count = link.execute("SELECT count(*) FROM connections").fetchone()[0]
        link.executemany(
            "INSERT INTO connections VALUES (?, 'edge-1', ?)",
            [(f"{past}-{count + n}", int(past)) for n in range(rows)],
        )
        link.executemany(
            "INSERT INTO conversation_leases VALUES (?, 'worker-1', ?)",
            [(f"{past}-{n}", int(past)) for n in range(rows // 7)],
        )


async def keep_busy(app: Gandy, stop: threading.Event) -> None:
    """Queue this and that until told to stop."""
    count = 0
    while not stop.is_set():
        count += 1
        await app.enqueue(CloseMonth, Month(random.choice(["May", "June", "July"]), count % 30 + 5))  # noqa: S311 the same
        if count % 12 == 0:
            await app.enqueue(import_feed, Feed("globex", ("a=1", "?")), max_retries=1)
        if count % 25 == 0:
            await app.enqueue(copy_table, Table("archive"), delay=timedelta(hours=count))
        await asyncio.sleep(0.5)


def live(url: str, port: int, stop: threading.Event) -> None:
    """Run the application until told to stop."""

    async def run() -> None:
        app = make_billing(url, port)
        async with app.running():
            await keep_busy(app, stop)

    asyncio.run(run())


def remember_a_week(path: Path) -> None:
    """Let there be figures of each minute of an hour and each hour of a day, and samples of a week."""
    with closing(sqlite3.connect(path, timeout=30)) as link, link:
        manifests = [row[0] for row in link.execute("SELECT id FROM manifest")]
        for manifest_id in manifests:
            for minutes in range(2, 60):
                link.execute(ADD_TALLY, tallied(manifest_id, minutes, random.randint(4, 16)))  # noqa: S311 the same
            for hours in range(1, 24):
                link.execute(ADD_TALLY, tallied(manifest_id, 60 * hours, random.randint(300, 900)))  # noqa: S311 the same
        for hours in range(1, 7 * 24):
            link.execute(REPEAT_SAMPLES, {"hours": hours})


def tallied(manifest_id: int, minutes: int, runs: int) -> dict[str, object]:
    """Make up what a manifest did in one minute, so long ago: with slow and with fast times."""
    tally, busy = Tally(), 1 + math.sin(minutes / 90 + manifest_id)
    for _ in range(runs):
        took = random.lognormvariate(0.3 * manifest_id % 2 - 1, 0.5) * (1 + busy)
        has_failed = random.random() < 0.04 * busy  # noqa: S311 the same
        state = TrainState.FAILED if has_failed else TrainState.COMPLETED
        tally.count(state, random.lognormvariate(-3, 1), took)
    return {
        "manifest_id": manifest_id,
        "shift": f"-{minutes} minutes",
        "completed": tally.completed,
        "failed": tally.failed,
        "longest_wait": tally.longest_wait,
        "longest": tally.longest,
        "waits": str(tally.waits),
        "durations": str(tally.durations),
    }


def operate(address: str) -> None:
    """Do what operators do, so that the trail has something to tell."""
    with httpx.Client(base_url=f"{address}/api/v1", headers=bearer(OPERATOR)) as client:
        client.post("/lifecycle/sweep", json={"scheduler": "statestore"}, timeout=60)
        client.post("/manifests/import-acme/set", json={"priority": 12, "max_retries": 5})
        client.post("/manifests/sync-stock/disable", json={"reason": "the warehouse counts its stock today"})
        client.post("/groups/reports/set", json={"max_active_jobs": 4})
        client.post("/manifests/nightly-report/trigger", json={"delay": 5400})
        client.post(
            "/queue/enqueue", json={"train": "copy_table", "input": {"name": "archive"}, "group": "archive"}
        )
        letters = client.get("/dead-letters").json()["items"]
        if letters:
            client.post(f"/dead-letters/{letters[-1]['id']}/acknowledge", json={"note": "the supplier knows"})


def take(page: Page, name: str, path: str) -> None:
    """Take one picture."""
    page.goto(path)
    page.wait_for_load_state("networkidle")
    # A picture tells nothing about the machine that it was taken on.
    page.evaluate(HIDE_PATHS, str(Path(__file__).parents[1]))
    if name in PARTS:
        page.locator(PARTS[name]).evaluate("part => part.scrollIntoView()")
    shown = page.locator(ELEMENTS[name]) if name in ELEMENTS else page
    shown.screenshot(path=SCREENSHOTS / f"{name}.png")


def places_in(address: str) -> dict[str, str]:
    """Name every picture, with the page that it is of."""
    with httpx.Client(base_url=f"{address}/api/v1", headers=bearer(OPERATOR)) as client:

        def first(listing: str) -> str:
            return str(client.get(listing).raise_for_status().json()["items"][0]["id"])

        return {
            "home": "/",
            "manifests": "/manifests",
            "manifest-excluded": "/manifests/nightly-report",
            "manifest-set": "/manifests/import-acme/set",
            "group": "/groups/etl",
            "graph": "/groups/etl",
            "dependent": "/manifests/merge-orders",
            "runs": "/runs",
            "run": f"/runs/{first('/runs?state=completed&train=CloseMonth&limit=1')}",
            "run-failed": f"/runs/{first('/runs?state=failed&limit=1')}",
            "queue": "/queue",
            "entry": f"/queue/{first('/queue?status=queued&group=archive')}",
            "dead-letters": "/dead-letters",
            "upcoming": "/upcoming",
            "workers": "/workers",
            "trains": "/trains",
            "stats": "/stats",
            "tables": "/tables",
            "growth": "/tables",
            "audit": "/audit",
        }


def take_all(address: str, chosen: list[str]) -> None:
    """Take every picture, or those that were chosen; some also in the dark, and on a phone."""
    places = places_in(address)
    with chromium() as browser:
        for suffix, scheme, width, names in (
            ("", "light", WIDE, list(places)),
            ("-dark", "dark", WIDE, ["home"]),
            ("-phone", "light", PHONE, ["run"]),
        ):
            context = browser.new_context(
                base_url=address, color_scheme="dark" if scheme == "dark" else "light"
            )
            page = context.new_page()
            sign_in(page)
            for name in names if not chosen else sorted({*names} & {*chosen}):
                page.set_viewport_size({"width": width, "height": TALL.get(name, 900)})
                take(page, f"{name}{suffix}", places[name])
            context.close()


def main() -> None:
    """Let the application work for a while, then take the pictures."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/billing.db"
        store = Path(folder) / "statestore.db"
        make_statestore(store)
        thread = threading.Thread(target=live, args=(url, port, stop))
        thread.start()
        address = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: _answers(address), "the dashboard answers")
            expire(store, 1_900)
            sweep = f"{address}/api/v1/lifecycle/sweep"
            httpx.post(sweep, json={"scheduler": "statestore"}, headers=bearer(OPERATOR), timeout=60)
            stop.wait(BUSY_SECONDS)
            expire(store, 640)
            remember_a_week(Path(folder) / "billing.db")
            audit([], f"sqlite:///{store}")
            operate(address)
            take_all(address, sys.argv[1:])
        finally:
            stop.set()
            thread.join()
    sys.stdout.write(f"{len(list(SCREENSHOTS.glob('*.png')))} pictures in {SCREENSHOTS.name}\n")


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/healthz").is_success
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    main()
