"""Jobs that compute, in one worker process and in several."""

from __future__ import annotations
