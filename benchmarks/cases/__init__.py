"""The cases, by name."""

from __future__ import annotations

from benchmarks.cases import queue

CASES = {case.name: case for case in (*queue.CASES,)}
