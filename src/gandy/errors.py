"""Every error that Gandy raises: typed fields, and a message that says what to do."""

from __future__ import annotations


class GandyError(Exception):
    """The base of every error raised by Gandy."""
