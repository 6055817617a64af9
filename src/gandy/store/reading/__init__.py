"""Queries for operators: listings, counts and checks, each of bounded cost."""

from __future__ import annotations
