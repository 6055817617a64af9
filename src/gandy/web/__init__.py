"""The dashboard, the REST interface, probes and metrics, on top of the desk."""

from __future__ import annotations
