"""`python -m benchmarks [--case NAME[,NAME]]... [--seconds N] [--quick] [--list]`."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING

from benchmarks.case import Case, NotTimedError
from benchmarks.cases import CASES
from benchmarks.machine import describe
from benchmarks.report import markdown
from benchmarks.result import save
from benchmarks.server import running_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.cases import RunnableCase

FAILED = 1
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
    names = [name for given in arguments.case for name in re.split(r"[,\s]+", given) if name]
    unknown = [name for name in names if name not in CASES]
    if unknown:
        print(f"no such case: {', '.join(unknown)}; --list shows all", file=sys.stderr)
        return WRONG_CALL
    try:
        chosen = _chosen(names or list(CASES), arguments.seconds)
    except NotTimedError as error:
        print(error, file=sys.stderr)
        return WRONG_CALL
    return _run(chosen, is_quick=arguments.quick)


def _chosen(names: Sequence[str], seconds: int | None) -> list[RunnableCase]:
    return [CASES[name] if seconds is None else _lasting(CASES[name], seconds) for name in names]


def _lasting(case: RunnableCase, seconds: int) -> RunnableCase:
    if isinstance(case, Case):
        return case.lasting(seconds)
    raise NotTimedError(case.name)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Gandy beside direct SQL and its peers."
    )
    parser.add_argument(
        "--case", action="append", default=[], metavar="NAME", help="only this one (repeatable, or a list)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that all runs, not how fast")
    parser.add_argument(
        "--seconds",
        type=int,
        metavar="N",
        help="how long cases last whose size is a time: soak, held-snapshot",
    )
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    return parser.parse_args()


def _run(chosen: Sequence[RunnableCase], *, is_quick: bool) -> int:
    """Measure, keep and print each; a case that fails does not stop the others."""
    begun, failed = time.monotonic(), []
    with running_server() as server:
        print("".join(f"- {name}: {value}\n" for name, value in describe(server).items()), flush=True)
        for number, case in enumerate(chosen, start=1):
            _progress(begun, f"{number} of {len(chosen)}: {case.name}")
            try:
                result = case.run(server, is_quick=is_quick)
            except Exception:  # noqa: BLE001 - shown, counted, and the hour is not lost
                traceback.print_exc()
                failed.append(case.name)
                continue
            save(result)
            print(markdown(result), flush=True)
    _progress(begun, f"done; failed: {', '.join(failed) or 'none'}")
    return FAILED if failed else 0


def _progress(begun: float, text: str) -> None:
    minutes, seconds = divmod(int(time.monotonic() - begun), 60)
    print(f"[{minutes:02}:{seconds:02}] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
