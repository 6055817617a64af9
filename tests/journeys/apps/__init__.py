"""Applications that the journeys run in processes of their own."""

from __future__ import annotations
