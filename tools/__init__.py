"""What only this repository needs."""

from __future__ import annotations
