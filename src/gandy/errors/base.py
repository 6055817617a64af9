"""The base of every error, and the decorator that makes an error from its fields and its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable


class GandyError(Exception):
    """The base of every error raised by Gandy."""

    #: The exit code of the command line: 1 failure, 2 wrong usage.
    exit_code: ClassVar[int] = 1
    _template: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if self._template is not None:  # a subclass of an application may be a dataclass too
            super().__init__(self._template.format_map(vars(self)))

    def __reduce__(self) -> tuple[object, ...]:
        # Not by the constructor, as Exception does: it takes the fields, and `args` holds the text.
        return _restored, (type(self), self.args), vars(self)


_Error = TypeVar("_Error", bound=GandyError)


def _restored(kind: type[_Error], args: tuple[object, ...]) -> _Error:
    error = kind.__new__(kind, *args)
    error.args = args  # OSError leaves this to its constructor
    return error


@dataclass_transform(eq_default=False)
def message(template: str, *, kw_only: bool = False) -> Callable[[type[_Error]], type[_Error]]:
    """Make a constructor of the annotated fields, and the message of the template with these fields.

    An error whose text or parameters need more than that has a constructor of its own.
    """

    def decorate(kind: type[_Error]) -> type[_Error]:
        kind._template = template  # noqa: SLF001 - of the class above
        return dataclass(eq=False, repr=False, match_args=False, kw_only=kw_only)(kind)

    return decorate
