"""Loops: when to run, never what to do."""

from __future__ import annotations
