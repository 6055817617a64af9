"""Who sweeps, when, how fast, and what operators are told."""

from __future__ import annotations
