"""Reports: the plan of a sweep, and the audit of a database."""

from __future__ import annotations
