"""The railway engine: trains, junctions and routes; it is independent of the database."""

from __future__ import annotations
