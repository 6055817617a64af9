"""Advice before anything is deleted: indexes, units, foreign keys, the order of rules."""

from __future__ import annotations
