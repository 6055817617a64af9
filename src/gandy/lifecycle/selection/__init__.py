"""Resolve a declared rule to rows of one database."""

from __future__ import annotations
