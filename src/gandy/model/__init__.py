"""Words: what the rest of Gandy talks about, without deciding anything."""

from __future__ import annotations
