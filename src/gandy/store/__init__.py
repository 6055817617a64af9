"""Everything that talks SQL to Gandy's own tables."""

from __future__ import annotations
