"""How to delete much without hurting: batch size, bisection, budget, throttle; no SQL."""

from __future__ import annotations

from gandy.sweep.budget import Budget
from gandy.sweep.drive import drive, drive_async
from gandy.sweep.pace import BatchSize, Pace
from gandy.sweep.protocol import (
    Answer,
    Attempt,
    Checkpoint,
    Contended,
    Ending,
    PassOver,
    Refused,
    Request,
    Rest,
    SetAside,
    SweepResult,
    Swept,
    Verdict,
)
from gandy.sweep.throttle import Throttle, verdict
from gandy.sweep.walk import Patience, Steps, walk

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
