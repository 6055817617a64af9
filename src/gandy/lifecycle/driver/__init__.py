"""Delete dead rows in bounded transactions."""

from __future__ import annotations
