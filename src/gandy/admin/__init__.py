"""Gandy's own trains."""

from __future__ import annotations
