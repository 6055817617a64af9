"""The dashboard and the REST interface of an application in whose database very much has happened."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.protocol import Contestant, serve
from gandy.app.process import loop_factory
from gandy.store.drivers.opening import migrate
from tests.web.conftest import client_of
from tests.web.crowd import fill
from tests.web.shop import make_shop, populate

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import httpx

WHOLE = 1_000_000
TIMES = 7
#: Every page, and the filters that are hard: what is rare, and what is frequent.
ADDRESSES = (
    "/",
    "/charts/throughput",
    "/manifests",
    "/manifests?train=log_in",
    "/manifests?group=etl",
    "/manifests/nightly",
    "/groups",
    "/groups/etl",
    "/runs",
    "/runs?state=failed",
    "/runs?train=log_in",
    "/runs?manifest=bulk-000002",
    "/queue",
    "/queue?status=skipped",
    "/dead-letters",
    "/tables",
    "/audit",
    "/metrics",
    "/api/v1/runs?limit=500",
    "/api/v1/manifests?limit=500",
)


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
        """Read every page; answers the milliseconds that each took, in the middle of several."""
        return {address: self._run(self._took(address)) for address in ADDRESSES}

    async def _open(self) -> None:
        app = await self._stack.enter_async_context(make_shop(self._url))
        await populate(app)
        self._client: httpx.AsyncClient = await self._stack.enter_async_context(client_of(app))

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


if __name__ == "__main__":
    serve(GandyPages(is_embedded="sqlite" in sys.argv))
