"""Takes the pictures of the documentation, of an application that has been busy for a while.

python -m tools.take_screenshots          # all
python -m tools.take_screenshots graph    # some
"""

from __future__ import annotations

import asyncio
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
from typing import TYPE_CHECKING, Final, Literal

import httpx

from gandy import Days, Gandy, Run, Train, cron, every
from gandy.lifecycle import audit
from gandy.store.drivers.opening import migrate
from tests.support.waiting import wait_until
from tests.web.browser import chromium, sign_in
from tests.web.conftest import OPERATOR, bearer

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREENSHOTS: Final = Path(__file__).parents[1] / "docs" / "screenshots"
BUSY_SECONDS: Final = 75
TALL: Final = {"tables": 1500, "manifest-set": 1360}
#: Pictures of a part of a page.
PARTS: Final = {"graph": "section.card:has(.graph)"}
HIDE_PATHS: Final = """root => document.querySelectorAll("pre").forEach(
    each => { each.textContent = each.textContent.replaceAll(root, "/srv/billing"); }
)"""
REPEAT_HISTORY: Final = """
INSERT INTO history (id, owner, name, train_state, attempt, created_at, start_time, end_time, keep_until)
SELECT :first + row_number() OVER (), owner, name, train_state, attempt, at, at, at, keep_until
FROM (SELECT *, strftime('%Y-%m-%dT%H:%M:%f', end_time, :shift) || '000Z' AS at FROM history
      WHERE id > 100000 AND name IN ('CloseMonth', 'copy_table', 'import_feed') ORDER BY id LIMIT 110)
WHERE abs(random()) % 100 < :share
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


def leave_room(url: str, path: Path) -> None:
    """Let ids begin high enough for an hour of history below them."""
    migrate(url)
    with closing(sqlite3.connect(path)) as link, link:
        link.execute("DELETE FROM sqlite_sequence WHERE name = 'work_queue'")
        link.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('work_queue', 100000)")


def remember_an_hour(path: Path) -> None:
    """Let what was done in a minute have been done in each minute of the hour, for the chart."""
    with closing(sqlite3.connect(path, timeout=30)) as link, link:
        for minute in range(2, 58):
            share = random.randint(25, 80)  # noqa: S311 the same
            link.execute(
                REPEAT_HISTORY,
                {"shift": f"-{minute} minutes", "share": share, "first": 100_000 - 1_000 * minute},
            )


def operate(address: str) -> None:
    """Do what operators do, so that the trail has something to tell."""
    with httpx.Client(base_url=f"{address}/api/v1", headers=bearer(OPERATOR)) as client:
        client.post("/lifecycle/sweep", json={"scheduler": "statestore"}, timeout=60)
        client.post("/manifests/import-acme/set", json={"priority": 12, "max_retries": 5})
        client.post("/manifests/sync-stock/disable", json={"reason": "the warehouse counts its stock today"})
        client.post("/groups/reports/set", json={"max_active_jobs": 4})
        client.post("/manifests/nightly-report/trigger", json={"delay": 5400})
        letters = client.get("/dead-letters").json()["items"]
        if letters:
            client.post(f"/dead-letters/{letters[-1]['id']}/acknowledge", json={"note": "the supplier knows"})


def take(page: Page, name: str, path: str) -> None:
    """Take one picture."""
    page.set_viewport_size({"width": 1360, "height": TALL.get(name, 900)})
    page.goto(path)
    page.wait_for_load_state("networkidle")
    # A picture tells nothing about the machine that it was taken on.
    page.evaluate(HIDE_PATHS, str(Path(__file__).parents[1]))
    part = page.locator(PARTS[name]) if name in PARTS else page
    part.screenshot(path=SCREENSHOTS / f"{name}.png")


def take_all(address: str, chosen: list[str]) -> None:
    """Take every picture, or those that were chosen."""
    with httpx.Client(base_url=f"{address}/api/v1", headers=bearer(OPERATOR)) as client:
        failed = client.get("/runs?state=failed&limit=1").json()["items"][0]["id"]
        done = client.get("/runs?state=completed&train=CloseMonth&limit=1").json()["items"][0]["id"]
        letter = client.get("/dead-letters?status=awaiting_intervention").json()["items"][0]["id"]
    places = {
        "home": "/",
        "manifests": "/manifests",
        "manifest": "/manifests/import-acme",
        "manifest-excluded": "/manifests/nightly-report",
        "manifest-set": "/manifests/import-acme/set",
        "groups": "/groups",
        "group": "/groups/etl",
        "graph": "/groups/etl",
        "dependent": "/manifests/merge-orders",
        "runs": "/runs",
        "run": f"/runs/{done}",
        "run-failed": f"/runs/{failed}",
        "queue": "/queue",
        "dead-letters": "/dead-letters",
        "dead-letter": f"/dead-letters/{letter}",
        "workers": "/workers",
        "trains": "/trains",
        "tables": "/tables",
        "audit": "/audit",
        "enqueue": "/queue/new/CloseMonth",
    }
    with chromium() as browser:
        for names in (places, {"home-dark": "/", "run-dark": f"/runs/{done}", "tables-dark": "/tables"}):
            scheme: Literal["light", "dark"] = "light" if names is places else "dark"
            context = browser.new_context(
                base_url=address,
                viewport={"width": 1360, "height": 900},
                color_scheme=scheme,
            )
            page = context.new_page()
            sign_in(page)
            for name, path in names.items():
                if not chosen or name in chosen:
                    take(page, name, path)
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
        leave_room(url, Path(folder) / "billing.db")
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
            remember_an_hour(Path(folder) / "billing.db")
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
