"""The maintenance contract as it is declared, in Python or in TOML; knows no database."""

from __future__ import annotations
