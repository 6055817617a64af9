"""A real browser, and a live application in a thread of its own for it to look at."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import expect, sync_playwright

from tests.support.waiting import wait_until
from tests.web.conftest import OPERATOR
from tests.web.shop import make_shop, populate, wait_for_ever

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from gandy import Gandy


#: A bound for failure on a busy machine, not a guess.
PATIENCE_MS = 30_000


def find_chromium() -> str | None:
    """Find the browser that `make browser` provides."""
    names = (os.environ.get("GANDY_TEST_CHROMIUM", ""), "chromium", "chromium-browser", ".cache/chromium/run")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser; as root it cannot have its sandbox."""
    path = find_chromium()
    assert path is not None, "no Chromium: run `make browser`"
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


def sign_in(page: Page) -> None:
    """Log in with the token."""
    page.goto("/login")
    page.get_by_label("Token").fill(OPERATOR)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/")


@contextmanager
def living_shop(url: str, *, make: Callable[..., Gandy] = make_shop) -> Iterator[str]:
    """Run a populated application with all its services; gives the address of its dashboard."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    stop = threading.Event()
    ready = threading.Event()

    async def live() -> None:
        app = make(url, port=port, token=OPERATOR)
        async with app:
            await populate(app)
            async with app.running():
                await app.enqueue(wait_for_ever)
                ready.set()
                await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="living-shop")
    thread.start()
    try:
        wait_until(ready.is_set, "the application is up")
        wait_until(lambda: _answers(port), "the dashboard answers")
        yield f"http://127.0.0.1:{port}"
    finally:
        stop.set()
        thread.join(timeout=30)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
