"""The base of every error."""

from __future__ import annotations

from typing import ClassVar


class GandyError(Exception):
    """The base of every error raised by Gandy."""

    #: What the command line ends with: 1 it failed, 2 the call was wrong.
    exit_code: ClassVar[int] = 1
