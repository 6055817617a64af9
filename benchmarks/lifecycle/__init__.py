"""An application's table of events, and three ways to delete the old half of it."""

from __future__ import annotations
