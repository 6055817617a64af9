"""How to delete much without hurting: batch size, bisection, budget, throttle; no SQL."""

from __future__ import annotations

from gandy.sweep.protocol import (
    Answer,
    Attempt,
    BatchSize,
    Budget,
    Checkpoint,
    Contended,
    Ending,
    Pace,
    PassOver,
    Refused,
    Request,
    Rest,
    SetAside,
    SweepResult,
    Swept,
    Throttle,
    Verdict,
    verdict,
)
from gandy.sweep.walk import Patience, Steps, drive, drive_async, walk

__all__ = [
    "Answer",
    "Attempt",
    "BatchSize",
    "Budget",
    "Checkpoint",
    "Contended",
    "Ending",
    "Pace",
    "PassOver",
    "Patience",
    "Refused",
    "Request",
    "Rest",
    "SetAside",
    "Steps",
    "SweepResult",
    "Swept",
    "Throttle",
    "Verdict",
    "drive",
    "drive_async",
    "verdict",
    "walk",
]
