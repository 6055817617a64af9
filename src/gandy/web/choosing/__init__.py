"""How routes and pages choose among many jobs: filters, previews and bulk forms."""

from __future__ import annotations
