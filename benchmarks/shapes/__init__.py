"""How busy a worker keeps its slots: slots x job length x kind of job x cap, through `gandy up`."""

from __future__ import annotations
