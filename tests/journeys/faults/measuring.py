"""A steady load, a fault, and what it cost."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.journeys.faults.scenarios import HOOKS
from tests.journeys.faults.stage import Stage, Toll
from tests.journeys.processes import fleet
from tests.support.pgbouncer import running_pgbouncer
from tests.support.proxy import running_proxy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.journeys.faults.scenarios import Fault, Way
    from tests.journeys.faults.stage import Scale
    from tests.support.postgres import ThrowawayServer

ENOUGH = 0.8
A_MOMENT = 1.0
SCALED = {
    "GANDY_WORKER_SLOTS": "10",
    "GANDY_DATABASE_LISTEN_CHECK_EVERY": "500ms",
}


@contextmanager
def stage_on(
    url: str,
    folder: Path,
    scale: Scale,
    server: ThrowawayServer | None = None,
    *,
    way: Way = "direct",
) -> Iterator[Stage]:
    """Load a migrated database and let workers begin."""
    with ExitStack() as parts:
        proxy = None if server is None else parts.enter_context(running_proxy(server.folder))
        pooler = None
        used = url
        if server is not None and way == "pooler":
            pooler = parts.enter_context(running_pgbouncer(server))
            used = pooler.url(url)
        elif proxy is not None and way == "proxy":
            used = proxy.url(url)
        heard = {"GANDY_DATABASE_NOTIFY_URL": proxy.url(url)} if proxy is not None and way == "direct" else {}
        ships = parts.enter_context(fleet(used, folder, **SCALED, **heard))
        stage = Stage(ships, scale, server, proxy, pooler=pooler, beside=url)
        stage.load(scale.jobs)
        hook = HOOKS / "disk" if server is None else None
        ships.start("up", "--services", "manifest-manager,dispatcher", hook=hook)
        stage.workers = [ships.start_worker(hook) for _ in range(scale.workers)]
        wait_until(lambda: stage.ended() > scale.jobs // 50, f"jobs end\n{ships.logs()}", within=60)
        yield stage


def measure(stage: Stage, name: str, fault: Fault) -> Toll:
    """Measure before, during and after, then wait until every job has ended."""
    scale = stage.scale
    baseline = stage.rate(scale.measure_seconds)
    stage.top_up(scale.jobs)
    begun = time.monotonic()
    during = stage.rate_while(lambda: fault(stage))
    lasted = time.monotonic() - begun
    recovered_after = stage.wait_for_rate(ENOUGH * baseline)
    recovered = stage.rate(scale.measure_seconds)
    wait_until(stage.is_over, f"every job has ended\n{stage.ships.logs()}", within=300)
    return Toll(
        fault=name,
        baseline=baseline,
        during=None if lasted < A_MOMENT else during / baseline,
        recovered=recovered / baseline,
        recovered_after=recovered_after,
        lost=stage.lost(),
        repeated=stage.repeated(),
    )
