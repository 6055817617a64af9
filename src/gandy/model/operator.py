"""Who asks for a change, and over which face."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Face: TypeAlias = Literal["python", "cli", "api", "dashboard", "service"]


@dataclass(frozen=True, slots=True)
class Operator:
    """The name under which a change is kept in the trail."""

    name: str
    face: Face
