"""The machine and the versions that a result was measured with."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.server import Server

KIB_PER_GIB = 1024 * 1024


def describe(server: Server) -> dict[str, str]:
    """What a reader needs to place the figures."""
    memory = int(_first("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0) / KIB_PER_GIB
    return {
        "CPU": _first("/proc/cpuinfo", r"model name\s*:\s*(.+)")
        or platform.processor()
        or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "PostgreSQL": f"{_version(server)}, fsync and synchronous_commit on",
        "Python": platform.python_version(),
    }


def _version(server: Server) -> str:
    with server.connect() as connection:
        return f"{connection.info.server_version // 10_000}.{connection.info.server_version % 10_000}"


def _first(path: str, pattern: str) -> str:
    try:
        found = re.search(pattern, Path(path).read_text())
    except OSError:
        return ""
    return found.group(1).strip() if found else ""
