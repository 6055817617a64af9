"""`python -m tests.lifecycle.fuzz [--cases N] [--seed N] [--start N] [--database postgres|sqlite]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import TYPE_CHECKING

from tests.lifecycle.fuzz.cases import CASES_PER_SHAPE, run_group, take_database
from tests.support import postgres_found
from tests.support.memory import quick_folder
from tests.support.postgres import ThrowawayServer

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN = 40  # cases that are described in full; the others are counted
_LONGEST = 20_000
_MINUTE = 60.0


def main() -> int:
    """Run the cases on the chosen databases and say what went, what was refused and what is wrong."""
    arguments = _parse()
    broken = 0
    for database in [arguments.database] if arguments.database else ("postgres", "sqlite"):
        broken += _run(database, arguments)
    return 1 if broken else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--cases", type=int, default=2_000, help="how many, on each database")
    parser.add_argument("--seed", type=int, help="replay this case alone")
    parser.add_argument("--start", type=int, default=0, help="the first case")
    parser.add_argument("--database", choices=("postgres", "sqlite"))
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def _run(database: str, arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    if arguments.seed is not None:
        numbers = [[arguments.seed]]
    else:
        ahead = range(arguments.start, arguments.start + arguments.cases)
        numbers = [list(ahead[at : at + CASES_PER_SHAPE]) for at in range(0, len(ahead), CASES_PER_SHAPE)]
    counts, broken = _gather(database, numbers, processes=arguments.processes)
    first, last = numbers[0][0], numbers[-1][-1]
    _say(f"{database}: cases {first} to {last}, {broken} broken, {time.monotonic() - began:.0f} s")
    for name, count in sorted(counts.items()):
        _say(f"  {name}: {count}")
    return broken


def _gather(database: str, numbers: list[list[int]], *, processes: int) -> tuple[Counter[str], int]:
    """Share the schemas among processes, each with a database of its own; broken cases are shown at once."""
    counts: Counter[str] = Counter()
    broken = 0
    progress = _Progress(sum(len(group) for group in numbers))
    context = get_context("spawn")
    with _databases(database, processes) as urls:
        waiting = context.Queue()
        for url in urls:
            waiting.put(url)
        with ProcessPoolExecutor(processes, context, take_database, (waiting,)) as pool:
            for done in as_completed([pool.submit(run_group, group) for group in numbers]):
                more, texts = done.result()
                counts.update(more)
                for text in texts[: max(0, _SHOWN - broken)]:
                    _say(text[:_LONGEST])
                broken += len(texts)
                progress.tell(counts["cases"], broken)
    return counts, broken


@dataclass(slots=True)
class _Progress:
    """How far a long run has come, said once a minute."""

    cases: int
    said_at: float = field(default_factory=time.monotonic)

    def tell(self, done: int, broken: int) -> None:
        """Say it where a minute has passed since the last time."""
        if time.monotonic() - self.said_at > _MINUTE:
            self.said_at = time.monotonic()
            sys.stderr.write(f"{done:,} of {self.cases:,} cases, {broken} broken\n")


@contextmanager
def _databases(database: str, processes: int) -> Iterator[list[str]]:
    """The URLs of one empty database for each process."""
    if database == "sqlite":
        with quick_folder("gandy-fuzz-") as folder:
            yield [f"sqlite:///{folder / f'{number}.db'}" for number in range(processes)]
        return
    server = ThrowawayServer(postgres_found.newest())
    try:
        names = [f"fuzz_{number}" for number in range(processes)]
        for name in names:
            server._create(name, None)
        yield [server.url(name) for name in names]
    finally:
        server.close()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
