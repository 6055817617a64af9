"""Schedule sweeps of contracts, confirm them, and report on them."""

from __future__ import annotations
