"""Metrics and structured log lines; subscribes to events."""

from __future__ import annotations
