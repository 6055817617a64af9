"""Reading for people: listings, counts and checks, each at a cost that has a limit."""

from __future__ import annotations
