"""What the lifecycle has to remember: in the swept database, in tables of its own."""

from __future__ import annotations
