"""`python -m tests.web.access`: walks the matrix and prints its counts for docs/reliability.md."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.web.access.judge import Verdict
from tests.web.access.matrix import CONFIGURATIONS, Counted, walk
from tests.web.access.routes import ROUTES

_COLUMNS = (Verdict.CLOSED, Verdict.UNKNOWN, Verdict.FORBIDDEN, Verdict.LOGIN, Verdict.ANSWERED)


def table(found: list[Counted]) -> str:
    """Write the table."""
    head = ["configuration", "credentials", "requests", *_COLUMNS, "wrong"]
    return "\n".join([_line(head), f"|{'---|' * len(head)}", *map(_row, found)])


def _row(each: Counted) -> str:
    counts = [each.verdicts[verdict] for verdict in _COLUMNS]
    told = [each.credentials, each.credentials * len(ROUTES), *counts, len(each.wrong)]
    return _line([each.name, *map(str, told)])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Walk every configuration in a folder of its own."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_STATE_HOME"] = str(Path(home, "state"))
        found = []
        for number, configuration in enumerate(CONFIGURATIONS):
            folder = Path(home, str(number))
            folder.mkdir()
            found.append(asyncio.run(walk(configuration, folder)))
    sys.stdout.write(f"{len(ROUTES)} routes\n\n{table(found)}\n")
    for each in found:
        for line in each.wrong[:20]:
            sys.stderr.write(f"{each.name}: {line}\n")
    return 1 if any(each.wrong for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
