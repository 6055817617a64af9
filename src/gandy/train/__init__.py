"""The railway engine: trains, junctions and routes; it knows no database."""

from __future__ import annotations
