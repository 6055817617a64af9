"""Text that a database cannot hold, made storable: what it stands in keeps all the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

REPLACEMENT: Final = "\ufffd"


def storable(parameters: Mapping[str, object]) -> dict[str, object]:
    """Replace NUL and lone surrogates in every text, those inside lists too; a pair becomes its character.

    Called only after the driver has refused a text: what can be stored is never looked through.
    """
    return {name: _storable(value) for name, value in parameters.items()}


def _storable(value: object) -> object:
    if isinstance(value, str):
        paired = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return paired.replace("\x00", REPLACEMENT)
    if isinstance(value, (list, tuple)):
        return [_storable(item) for item in value]
    return value
