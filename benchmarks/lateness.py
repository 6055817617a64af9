"""How late the manager is: from the due instant to the queue row, at a thousand due a second."""

from __future__ import annotations

import argparse
import asyncio

import psycopg

from benchmarks.server import running_server
from benchmarks.statements import load_statements
from gandy import Gandy, every
from gandy.store.drivers.opening import migrate

STATEMENTS = load_statements(__file__)
PER_SECOND = 1_000
LOOK_EVERY = 0.2
SPARE_SECONDS = 30


def make_app(url: str, manifests: int) -> Gandy:
    """An application with that many hourly manifests."""
    app = Gandy("bench", database=url)

    @app.train
    async def no_op(number: int) -> None:
        """Never run here: only the manager is up."""

    app.schedule_many("late", no_op, {str(n): n for n in range(manifests)}, every(hours=1))
    return app


async def measure(url: str, manifests: int) -> tuple[int, float, float, float]:
    """Seed, let them come due one after the other, and read how late each was queued."""
    app = make_app(url, manifests)
    async with app:
        await app.seed()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(STATEMENTS["stagger"])
        async with app.running(("manifest-manager",)):
            for _ in range(int((manifests / PER_SECOND + SPARE_SECONDS) / LOOK_EVERY)):
                await asyncio.sleep(LOOK_EVERY)
                row = connection.execute(STATEMENTS["queued"]).fetchone()
                if row is not None and row[0] >= manifests:
                    break
        figures = connection.execute(STATEMENTS["lateness"]).fetchone()
    if figures is None or figures[0] != manifests:
        message = f"{figures[0] if figures else 0} of {manifests} occurrences were queued"
        raise AssertionError(message)
    return figures[0], figures[1], figures[2], figures[3]


def main() -> None:
    """Print the percentiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="how long manifests come due")
    seconds = parser.parse_args().seconds
    with running_server() as server, server.database("bench_lateness"):
        url = server.url("bench_lateness")
        migrate(url)
        count, median, p99, longest = asyncio.run(measure(url, seconds * PER_SECOND))
    print(
        f"| due | per second | p50 ms | p99 ms | max ms |\n|---|---|---|---|---|\n"
        f"| {count:,} | {PER_SECOND:,} | {median * 1e3:.0f} | {p99 * 1e3:.0f} | {longest * 1e3:.0f} |"
    )


if __name__ == "__main__":
    main()
