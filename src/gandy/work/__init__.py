"""Work: dispatching, claiming, running and finishing jobs."""

from __future__ import annotations
