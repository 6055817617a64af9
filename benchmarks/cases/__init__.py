"""The cases, by name."""

from __future__ import annotations

from benchmarks.cases import lifecycle, queue, retention, schedules

CASES = {case.name: case for case in (*queue.CASES, *schedules.CASES, *retention.CASES, *lifecycle.CASES)}
