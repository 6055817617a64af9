"""What `gandy demo` runs."""

from __future__ import annotations
