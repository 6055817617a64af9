"""A FastAPI application that queues work and shows it."""

from __future__ import annotations
