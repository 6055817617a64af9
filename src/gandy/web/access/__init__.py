"""Authentication and authorisation of requests."""

from __future__ import annotations
