"""The base of every error."""

from __future__ import annotations

from typing import ClassVar


class GandyError(Exception):
    """The base of every error raised by Gandy."""

    #: The exit code of the command line: 1 failure, 2 wrong usage.
    exit_code: ClassVar[int] = 1
