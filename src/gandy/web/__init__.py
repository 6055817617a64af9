"""The dashboard, the REST interface, health and metrics: faces of the desk."""

from __future__ import annotations
