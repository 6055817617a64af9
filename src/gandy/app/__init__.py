"""Gandy: the only place where the parts meet."""

from __future__ import annotations

from gandy.app.asking import Job
from gandy.app.gandy import Gandy

__all__ = ["Gandy", "Job"]
