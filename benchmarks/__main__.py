"""`python -m benchmarks [--case NAME]... [--quick] [--list]`."""

from __future__ import annotations

import argparse
import signal
import sys

from benchmarks.cases import CASES
from benchmarks.report import markdown, save
from benchmarks.server import running_server

WRONG_CALL = 2
TERMINATED = 143


def main() -> int:
    """Run the chosen cases one after the other on one server."""
    # Ends as after an error, so that the server is stopped and its folder removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    arguments = _parse()
    if arguments.list:
        for case in CASES.values():
            print(f"{case.name:24} {case.title}: {', '.join(case.contestants)}")
        return 0
    unknown = [name for name in arguments.case if name not in CASES]
    if unknown:
        print(f"no such case: {', '.join(unknown)}; --list shows all", file=sys.stderr)
        return WRONG_CALL
    _run(arguments.case or list(CASES), quick=arguments.quick)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Gandy beside direct SQL and its peers."
    )
    parser.add_argument(
        "--case", action="append", default=[], metavar="NAME", help="only this one (repeatable)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that all runs, not how fast")
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    return parser.parse_args()


def _run(names: list[str], *, quick: bool) -> None:
    with running_server() as server:
        print(f"## PostgreSQL {server.version}, fsync and synchronous_commit on\n", flush=True)
        for case in (CASES[name] for name in names):
            scale = case.quick if quick else case.full
            rounds = case.run(server, scale)
            save(case, rounds, scale=scale, server=server)
            print(markdown(case, rounds, scale), flush=True)


if __name__ == "__main__":
    sys.exit(main())
