"""Reading junctions, checking routes and turning them into plans, once per train."""

from __future__ import annotations
