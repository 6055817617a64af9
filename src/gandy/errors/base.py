"""The base of every error."""

from __future__ import annotations

from typing import ClassVar, TypeVar


class GandyError(Exception):
    """The base of every error raised by Gandy."""

    #: The exit code of the command line: 1 failure, 2 wrong usage.
    exit_code: ClassVar[int] = 1

    def __reduce__(self) -> tuple[object, ...]:
        # Not by the constructor, as Exception does: it takes the fields, and `args` holds the text.
        return _restored, (type(self), self.args), vars(self)


_Error = TypeVar("_Error", bound=GandyError)


def _restored(kind: type[_Error], args: tuple[object, ...]) -> _Error:
    error = kind.__new__(kind, *args)
    error.args = args  # OSError leaves this to its constructor
    return error
