"""The tables of a clustered state store, and the contract that keeps them bounded."""

from __future__ import annotations
