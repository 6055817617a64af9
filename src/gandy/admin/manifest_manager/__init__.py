"""The ManifestManager: decides what is due and writes it into the work queue; it dispatches nothing."""

from __future__ import annotations
