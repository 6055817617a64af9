"""All SQL access to Gandy's own tables."""

from __future__ import annotations
