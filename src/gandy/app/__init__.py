"""Gandy: the only place where the parts meet."""

from __future__ import annotations

from gandy.app.gandy import Gandy
from gandy.app.job import Job

__all__ = ["Gandy", "Job"]
