"""`python -m benchmarks.sweep CONTESTANT`: finds the settings that a contestant is measured with."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

from benchmarks.cases.queue import throughput
from benchmarks.rounds import alternate
from benchmarks.server import running_server
from benchmarks.session import open_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.rounds import Measured

JOBS, ROUNDS = 20_000, 5
SETTINGS: dict[str, list[dict[str, object]]] = {
    "t3m": [{"batch": batch} for batch in (100, 200, 500, 1_000, 2_000)],
    "pgqueuer": [
        {"batch": batch, "driver": driver}
        for driver in ("asyncpg", "psycopg")
        for batch in (50, 100, 250, 500, 1_000)
    ],
    "awa": [{"workers": workers} for workers in (100, 200, 500, 1_000, 2_000)],
    "oban": [{"limit": limit} for limit in (20, 50, 100, 200, 500)],
    "chancy": [
        {"concurrency": concurrency, "send_every": send_every}
        for concurrency in (100, 500, 2_000)
        for send_every in (0.05, 0.25, 1)
    ],
    "procrastinate": [{"concurrency": concurrency} for concurrency in (1, 5, 10, 20, 50)],
    "dbos": [
        {"concurrency": concurrency, "poll": poll} for concurrency in (20, 100, 500) for poll in (0.01, 0.1)
    ],
    "django-ox": [{"concurrency": concurrency} for concurrency in (1, 5, 10, 20, 50)],
    "APScheduler 3": [{"threads": threads} for threads in (1, 5, 10, 20)],
    "APScheduler 4": [
        {"concurrency": concurrency, "broker": broker}
        for broker in ("asyncpg", "local")
        for concurrency in (5, 20, 100)
    ],
}


def main() -> None:
    """Alternate between the settings of one contestant and print what each gave."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contestant", choices=SETTINGS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=JOBS, help="a slow peer needs fewer")
    arguments = parser.parse_args()
    settings = {json.dumps(setting): setting for setting in SETTINGS[arguments.contestant]}
    with ExitStack() as stack:
        server = stack.enter_context(running_server())
        session = stack.enter_context(open_session(server, arguments.contestant, 1))

        def run(name: str) -> Measured:
            tuned: Mapping[str, object] = settings[name]
            session.ask_first("tune", **tuned)
            return throughput(session, arguments.jobs)

        rounds = alternate(list(settings), arguments.rounds, run)
    for name in settings:
        figures = {metric: round(rounds.summary(name, metric).median, 1) for metric in rounds.metrics(name)}
        print(f"{name}: {figures}")


if __name__ == "__main__":
    main()
