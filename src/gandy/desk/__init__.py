"""The operations of operators, shared by the command line and the web interface."""

from __future__ import annotations
