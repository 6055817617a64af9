"""Loops: polling, waking and supervising services."""

from __future__ import annotations
