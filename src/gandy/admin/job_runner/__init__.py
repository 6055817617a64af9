"""JobRunner: what surrounds the user's train: load, check, run, record."""

from __future__ import annotations
