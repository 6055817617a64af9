"""Pages of the reference that are written from the code."""

from __future__ import annotations
