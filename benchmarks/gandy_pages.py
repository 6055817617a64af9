"""The dashboard and the REST interface of an application in whose database very much has happened."""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.protocol import Contestant, serve
from gandy.app.process import loop_factory
from gandy.store.drivers.opening import migrate
from tests.web.addresses import page_addresses
from tests.web.conftest import client_of
from tests.web.crowd import fill
from tests.web.shop import make_shop, populate

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import httpx

WHOLE = 1_000_000
TIMES = 7
#: Filters that are hard, because they find what is rare or what is frequent, and what programs ask for.
SEARCHES: Final = (
    "/charts/throughput",
    "/manifests?train=log_in",
    "/manifests?group=etl",
    "/runs?state=failed",
    "/runs?train=log_in",
    "/runs?manifest=bulk-000002",
    "/queue?status=skipped",
    "/queue?gate=train",
    "/upcoming?within=604800",
    "/stats?window=week",
    "/audit?on=nightly",
    "/metrics",
    "/api/v1/runs?limit=500",
    "/api/v1/manifests?limit=500",
)
#: Where the rows are that pages are about, by the name in their routes.
ROWS: Final = {
    "run_id": "/runs?state=failed&limit=1",
    "entry_id": "/queue?status=undispatched&limit=1",
    "letter_id": "/dead-letters?limit=1",
}


class GandyPages(Contestant):
    """Asked in the process that serves: what is measured is the server's time, and no network."""

    def __init__(self, *, is_embedded: bool) -> None:
        self._is_embedded = is_embedded
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self._stack = AsyncExitStack()
        self._folder = tempfile.TemporaryDirectory(prefix="gandy-bench-")
        self._runs = 0

    def setup(self, url: str) -> None:
        """Migrate."""
        if not self._is_embedded:
            migrate(url)

    def open(self, url: str) -> None:
        """Open the application, and let it do a little."""
        self._url = f"sqlite:///{Path(self._folder.name) / 'bench.db'}" if self._is_embedded else url
        self._run(self._open())

    def close(self) -> None:
        """Close it."""
        self._run(self._stack.aclose())
        self._runner.close()

    def fill(self, runs: int) -> None:
        """Have so many runs and a tenth as many manifests, once."""
        if self._runs < runs:
            fill(self._url, share=WHOLE // runs)
            self._runs = runs

    def read(self) -> dict[str, float]:
        """Read every page and search; answers the milliseconds of each, the middle of several."""
        found: list[str] = self._run(self._pages())
        return {_label(address): self._run(self._took(address)) for address in (*found, *SEARCHES)}

    async def _open(self) -> None:
        app = await self._stack.enter_async_context(make_shop(self._url))
        await populate(app)
        self._client: httpx.AsyncClient = await self._stack.enter_async_context(client_of(app))

    async def _pages(self) -> list[str]:
        """List every page that there is a route for, with something to show."""
        first = {
            kind: [(await self._client.get(f"/api/v1{listing}")).json()["items"][0]["id"]]
            for kind, listing in ROWS.items()
        }
        return page_addresses(external_id=["nightly"], name=["etl"], train=["send_parcel"], **first)

    async def _took(self, address: str) -> float:
        taken = []
        for _ in range(TIMES):
            began = time.perf_counter()
            answer = await self._client.get(address)
            taken.append((time.perf_counter() - began) * 1000)
            answer.raise_for_status()
        return statistics.median(taken)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 whatever it comes to
        return self._runner.run(work)


def _label(address: str) -> str:
    """Name a page alike on both databases, which count otherwise."""
    return re.sub(r"/\d+", "/N", address)


if __name__ == "__main__":
    serve(GandyPages(is_embedded="sqlite" in sys.argv))
