"""An oracle for the lifecycle: random databases and contracts, and a judge that shares no code with it."""

from __future__ import annotations
