"""What the junctions of one cycle hand on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.admin.upkeep.cycle import UpkeepResult


@dataclass(frozen=True, slots=True)
class MadeDays:
    """Days that have partitions now."""

    days: int = 0


@dataclass(frozen=True, slots=True)
class DroppedDays:
    """Partitions that are gone, and the rows that went with them."""

    leaves: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrunedRows:
    """What was deleted by row."""

    result: UpkeepResult
