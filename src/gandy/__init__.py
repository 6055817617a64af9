"""Gandy: a job scheduler on your own database whose tables never grow without bound."""

from __future__ import annotations
