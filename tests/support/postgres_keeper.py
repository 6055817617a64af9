"""Runs a PostgreSQL server for as long as the process that asked for it lives, and not longer.

Started as a script of its own, in a session of its own. When its parent is gone, even by kill -9, it ends
the server, thaws it first if it was frozen, and removes its folder. Should this process be killed too, the
kernel tells the server to quit.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO

PR_SET_PDEATHSIG = 1
LOOK_EVERY_SECONDS = 0.2
QUIT_WITHIN_SECONDS = 10


class Orders(NamedTuple):
    """What to run, as whom, and what to clear away afterwards."""

    parent: int
    folder: str
    log: str
    owner: tuple[int, int] | None
    initdb: Sequence[str]
    postgres: Sequence[str]


def main() -> int:
    orders = Orders(**json.loads(sys.argv[1]))
    with open(orders.log, "ab") as log:  # noqa: PTH123  (a path from the command line, used once)
        return keep(orders, log)


def keep(orders: Orders, log: IO[bytes]) -> int:
    """Make the data folder if asked, then run the server until it ends or the parent does."""
    for command in (orders.initdb, orders.postgres):
        if command:
            code = run(command, orders, log)
            if code:
                return code
    return 0


def run(command: Sequence[str], orders: Orders, log: IO[bytes]) -> int:
    """Run one program to its end; if the parent goes first, end it, clear up and leave."""
    process = start(command, orders, log)
    while process.poll() is None:
        if parent_is_gone(orders.parent):
            end(process)
            shutil.rmtree(orders.folder, ignore_errors=True)
            sys.exit(0)
    return process.returncode


def start(command: Sequence[str], orders: Orders, log: IO[bytes]) -> subprocess.Popen[bytes]:
    user, group = orders.owner or (None, None)
    return subprocess.Popen(
        command,
        cwd=orders.folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        user=user,
        group=group,
        extra_groups=None if user is None else [],
        # Runs after the change of user, which would have cleared the setting. One thread: forking is safe.
        preexec_fn=die_with_parent(),  # noqa: PLW1509
    )


def die_with_parent() -> Callable[[], None] | None:
    """Ask the kernel to quit the server when the keeper dies (elsewhere than on Linux it has to live)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def parent_is_gone(parent: int) -> bool:
    """Wait a moment for the end of the pipe from the parent; a fork may hold it open, so ask twice."""
    readable, _, _ = select.select([sys.stdin], [], [], LOOK_EVERY_SECONDS)
    return bool(readable) or os.getppid() != parent


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program and all its children, frozen or not: politely, then for good."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGQUIT)
    _, remaining = psutil.wait_procs(family, timeout=QUIT_WITHIN_SECONDS)
    for member in remaining:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()


if __name__ == "__main__":
    sys.exit(main())
