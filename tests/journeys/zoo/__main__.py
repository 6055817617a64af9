"""`python -m tests.journeys.zoo [--jobs N] [--seed N] [--zoo alive|deadly] [--database postgres|sqlite]`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from gandy.store.drivers.opening import migrate
from tests.journeys.zoo.keeping import Family, Plan, keep
from tests.support import postgres_found
from tests.support.postgres import ThrowawayServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.journeys.zoo.judging import Verdict

TERMINATED = 143
COLUMNS = (
    "zoo",
    "database",
    "seed",
    "jobs",
    "hostile kinds",
    "executed",
    "repeated",
    "not once on record",
    "stuck",
    "restarts",
    "seconds",
)


def main() -> int:
    """Run the chosen zoos one after the other; a fault of one does not stop the others."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    arguments = _parse()
    failed = False
    say(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for family in [arguments.zoo] if arguments.zoo else get_args(Family):
        for database in [arguments.database] if arguments.database else ("postgres", "sqlite"):
            plan = Plan(family, arguments.jobs, arguments.seed)
            with (
                tempfile.TemporaryDirectory(prefix="gandy-zoo-") as folder,
                _database(database, folder) as url,
            ):
                verdict = keep(plan, url, Path(folder))
            say(_line(plan, database, verdict))
            faults = verdict.faults_of_the_living if family == "alive" else verdict.faults
            for name, value in faults.items():
                sys.stderr.write(f"{family} on {database}: {name}: {value!s:.500}\n")
            if faults and arguments.logs:
                sys.stderr.write(verdict.logs)
            failed = failed or bool(faults)
    return int(failed)


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.journeys.zoo", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000)
    new_seed = time.time_ns() % 1_000_000
    parser.add_argument("--seed", type=int, default=new_seed, help="of an earlier run, to replay it")
    parser.add_argument("--zoo", choices=get_args(Family), help="without it, both")
    parser.add_argument("--database", choices=("postgres", "sqlite"), help="without it, both")
    parser.add_argument("--logs", action="store_true", help="show what the processes of a bad zoo said")
    return parser.parse_args()


@contextmanager
def _database(name: str, folder: str) -> Iterator[str]:
    if name == "sqlite":
        url = f"sqlite:///{folder}/gandy.db"
        migrate(url)
        yield url
        return
    server = ThrowawayServer(postgres_found.newest())
    try:
        with server.database() as url:
            migrate(url)
            yield url
    finally:
        server.close()


def _line(plan: Plan, database: str, verdict: Verdict) -> str:
    figures = (
        plan.family,
        database,
        plan.seed,
        verdict.jobs,
        verdict.hostile_kinds,
        verdict.executed,
        sum(verdict.repeated.values()),
        len(verdict.unrecorded),
        len(verdict.stuck),
        verdict.restarts,
        f"{verdict.seconds:.0f}",
    )
    return f"| {' | '.join(map(str, figures))} |"


if __name__ == "__main__":
    sys.exit(main())
