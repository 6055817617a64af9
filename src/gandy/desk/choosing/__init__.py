"""How operators choose among many jobs: texts, walks over all that match, and previews."""

from __future__ import annotations
