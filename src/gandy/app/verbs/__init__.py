"""The verbs of operators in Python, a module for each noun."""

from __future__ import annotations
