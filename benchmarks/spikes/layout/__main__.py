"""`python -m benchmarks.spikes.layout [--quick]`: prints the figures behind the layout of history."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.rounds import Rounds, alternate
from benchmarks.server import running_server
from benchmarks.spikes.layout.drive import Desk, Load, run_load, warm_up
from benchmarks.spikes.layout.measures import log_rows, lookups, preload, retention, sizes
from benchmarks.spikes.layout.schema import main_contestants

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.server import Server
    from benchmarks.spikes.layout.schema import Layout

LAYOUTS = 4


def main() -> None:
    """Parse the call, run every part, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, three rounds")
    quick = parser.parse_args().quick
    jobs, rounds, history = (5_000, 3, 50_000) if quick else (20_000, 7, 1_000_000)
    with running_server() as server:
        say(f"## PostgreSQL {server.version}, {jobs:,} jobs a round, {rounds} rounds")
        desks = prepare(server, "layout", main_contestants())
        for number, (title, load) in enumerate(loads(jobs).items()):
            throughput(title, desks[:LAYOUTS] if number else desks, load, rounds=rounds)
        aside(prepare(server, "history", main_contestants()[:3]), history)


def prepare(server: Server, prefix: str, layouts: Sequence[Layout]) -> list[Desk]:
    """A database for each layout."""
    desks = [Desk(server, layout, f"{prefix}_{number}") for number, layout in enumerate(layouts)]
    for desk in desks:
        desk.create()
        warm_up(desk)
    return desks


def loads(jobs: int) -> dict[str, Load]:
    """The kinds of load to compare."""
    base = Load(jobs=jobs)
    return {
        "claim and finish overlapped on two connections": base,
        "one connection": replace(base, overlapped=False),
        "batches of 100": replace(base, batch=100),
        "an old snapshot held open": replace(base, old_snapshot=True),
        "large inputs (6 kB)": replace(base, jobs=jobs // 4, input_bytes=6_000),
    }


def throughput(title: str, desks: Sequence[Desk], load: Load, *, rounds: int) -> None:
    """One table: every layout under one load."""

    def run(desk: Desk) -> Mapping[str, float]:
        cost = run_load(desk, load)
        return {
            "jobs/s": load.jobs / cost.seconds,
            "PostgreSQL µs/job": cost.server_cpu / load.jobs * 1e6,
            "WAL bytes/job": cost.wal_bytes / load.jobs,
        }

    print_table(title, alternate(desks, rounds, run), desks)


def aside(desks: Sequence[Desk], history: int) -> None:
    """Everything that is asked once, with a long history in place."""
    for desk in desks:
        preload(desk, history)
        say(f"\n### {desk.layout.name}, {history:,} finished runs")
        for part in (lookups(desk), sizes(desk)):
            say(line(part))
        for leaf in (False, True) if desk.layout.daily else (False,):
            written = log_rows(desk, history // 5, leaf=leaf)
            say(f"log rows{', into the leaf' if leaf else ''}: {line(written)}")
        say(f"retention: {line(retention(desk, history))}")


def print_table(title: str, rounds: Rounds[Desk], desks: Sequence[Desk]) -> None:
    """Medians, with ratios to the first layout in brackets."""
    metrics = rounds.metrics(desks[0])
    say(f"\n### {title}\n\n| layout | {' | '.join(metrics)} |\n|---|{'---|' * len(metrics)}")
    for desk in desks:
        cells = [
            f"{rounds.summary(desk, metric).median:,.1f} ({rounds.ratio(desk, desks[0], metric).median:.2f})"
            for metric in metrics
        ]
        say(f"| {desk.layout.name} | {' | '.join(cells)} |")


def line(figures: Mapping[str, float]) -> str:
    """Figures in one line."""
    return ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
