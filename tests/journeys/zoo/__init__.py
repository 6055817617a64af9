"""A zoo: many innocent jobs, and among them some that end in every way that hurts."""

from __future__ import annotations
