"""The files that `gandy init` writes."""

from __future__ import annotations
