"""The data types of Gandy, without decisions."""

from __future__ import annotations
