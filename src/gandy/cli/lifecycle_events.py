"""Lifecycle events as lines on stderr."""

from __future__ import annotations

import logging


def log_events() -> None:
    """Write each event of the lifecycle as one line on stderr, whatever else is logged where."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("gandy.lifecycle")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)
