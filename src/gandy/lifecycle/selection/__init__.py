"""From a declared rule to the rows it means in one database."""

from __future__ import annotations
