"""The command line, one file for each group of commands."""

from __future__ import annotations
