"""The worker: claims runs, takes them to their end, and finishes them in batches."""

from __future__ import annotations
