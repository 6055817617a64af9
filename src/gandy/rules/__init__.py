"""Pure decisions: `now` and a snapshot in, a verdict out; no clock, no connection."""

from __future__ import annotations
