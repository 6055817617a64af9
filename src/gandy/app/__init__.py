"""The application: the only package that connects all parts."""

from __future__ import annotations

from gandy.app.gandy import Gandy
from gandy.app.requests import Job

__all__ = ["Gandy", "Job"]
