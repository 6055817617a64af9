"""Delete many rows without disturbing other work: batch size, bisection, budget, throttle; no SQL."""

from __future__ import annotations

from gandy.sweep.protocol import (
    Answer,
    Attempt,
    BatchSize,
    Budget,
    Checkpoint,
    Contended,
    Pace,
    PassOver,
    Refused,
    Request,
    Rest,
    SetAsideRequest,
    SweepEnding,
    SweepResult,
    SweptBatch,
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
    "Pace",
    "PassOver",
    "Patience",
    "Refused",
    "Request",
    "Rest",
    "SetAsideRequest",
    "Steps",
    "SweepEnding",
    "SweepResult",
    "SweptBatch",
    "Throttle",
    "Verdict",
    "drive",
    "drive_async",
    "verdict",
    "walk",
]
