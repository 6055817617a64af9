"""Who asks, and whether they may."""

from __future__ import annotations
