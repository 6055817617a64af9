"""Worker processes under one parent."""

from __future__ import annotations
