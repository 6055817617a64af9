"""Examples that are tested with the rest."""

from __future__ import annotations
