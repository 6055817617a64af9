from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.architecture.source import ROOT

if TYPE_CHECKING:
    from tests.support.history import Past

RUNS = 2_000


def start_server(past: Past) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tests.support.cleaner",
        past.world.url,
        past.world.clock.now.isoformat(),
    ]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    return server


def test_two_servers_clean_at_once_without_error_and_leave_nothing(past: Past) -> None:
    past.runs(RUNS, name="ManifestManagerTrain", started=timedelta(hours=1), lines=2)
    assert (past.count("metadata"), past.count("log")) == (RUNS, 2 * RUNS)
    servers = [start_server(past) for _ in range(2)]
    for server in servers:
        assert server.stdin is not None
        server.stdin.write("go\n")
        server.stdin.flush()

    answers = [json.loads(server.communicate(timeout=50)[0]) for server in servers]

    assert [server.returncode for server in servers] == [0, 0]
    assert [answer["failed"] for answer in answers] == [0, 0]
    assert sum(answer["deleted"] for answer in answers) == RUNS
    assert (past.count("metadata", "output IS NULL"), past.count("log")) == (0, 0)
