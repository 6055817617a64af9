"""Declaration of maintenance contracts, in Python or in TOML; independent of any database."""

from __future__ import annotations
