"""What is true at the moment, for whoever keeps series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a bounded look at the database found."""

    waiting: Mapping[str, int]  #: entries by the gate that holds them
    live_runs: Mapping[str, int]  #: runs by state
    longest_wait: float
    awaiting_letters: int
    workers: int
    slots: int
    busy: int
