"""When a sweep should hold: anything that can be asked between two batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gandy.sweep.protocol import Verdict

Throttle = Callable[[], bool]


def verdict(throttles: Iterable[Throttle], is_stopping: Callable[[], bool]) -> Verdict:
    """STOP once asked to, HOLD while any throttle says so, else GO."""
    if is_stopping():
        return Verdict.STOP
    return Verdict.HOLD if any(throttle() for throttle in throttles) else Verdict.GO
