"""The application of `gandy demo`."""

from __future__ import annotations
