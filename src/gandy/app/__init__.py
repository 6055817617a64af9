"""The application: the only package that connects all parts."""

from __future__ import annotations

from gandy.app.asking import Job
from gandy.app.gandy import Gandy

__all__ = ["Gandy", "Job"]
