"""Database drivers: one thin executor per kind of connection."""

from __future__ import annotations
