"""`make mutants`: break every guard once, and list what no test noticed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.lifecycle.mutants.mutant import Bench, Mutant, Verdict
from tests.lifecycle.mutants.table import MUTANTS, SUITE
from tests.support.replacing import TrialError


def main() -> int:
    """Try every mutant; 1 where one survives that should not."""
    wanted = _arguments()
    chosen = [mutant for mutant in MUTANTS if wanted.only in f"{mutant.file} {mutant.breaks}"]
    if wanted.list:
        for mutant in chosen:
            _say(f"{mutant.file}: {mutant.breaks}")
        return 0
    with tempfile.TemporaryDirectory(prefix="gandy-mutants-") as folder:
        verdicts = _tried(chosen, Path(folder), workers=wanted.workers)
    survivors = [verdict.mutant for verdict in verdicts if not verdict.killer]
    _say(f"{len(verdicts)} mutants, {len(verdicts) - len(survivors)} noticed, {len(survivors)} survived")
    return int(any(not mutant.may_survive for mutant in survivors))


def _tried(mutants: list[Mutant], folder: Path, *, workers: int) -> list[Verdict]:
    benches: SimpleQueue[Bench] = SimpleQueue()
    for number in range(workers):
        benches.put(Bench(folder / str(number)))

    def attempt(mutant: Mutant) -> Verdict:
        bench = benches.get()
        try:
            verdict = bench.tried(mutant, SUITE)
        finally:
            benches.put(bench)
        _show(verdict)
        return verdict

    _say("| file | broken | noticed by | seconds |\n|---|---|---|---|")
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(attempt, mutants))


def _show(verdict: Verdict) -> None:
    mutant = verdict.mutant
    noticed = verdict.killer.rpartition("::")[2] or f"**survived** {mutant.may_survive}".rstrip()
    _say(f"| {mutant.file} | {mutant.breaks} | {noticed} | {verdict.seconds:.0f} |")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lifecycle.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="those whose file or words contain this")
    parser.add_argument("--workers", type=int, default=2, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="name them, and try none")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # it talks to the terminal


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TrialError as error:
        sys.exit(f"a trial could not be made: {error}")
