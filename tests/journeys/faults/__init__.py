"""Faults, one after the other, on a running system; what each costs is measured by who runs it."""

from __future__ import annotations
