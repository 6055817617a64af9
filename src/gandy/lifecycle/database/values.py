"""Keys of rows as JSON text and back: cursors and quarantined rows are kept that way."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable


def encode_values(values: tuple[object, ...]) -> str:
    """Write values so that `decode_values` gives equal ones back."""
    return json.dumps([_encode(value) for value in values])


def decode_values(text: str) -> tuple[object, ...]:
    """Read what `encode_values` wrote."""
    return tuple(_decode(value) for value in json.loads(text))


def _encode(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return {"datetime": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
        case UUID():
            return {"uuid": str(value)}
        case Decimal():
            return {"decimal": str(value)}
        case bytes() | memoryview():
            return {"bytes": base64.b64encode(bytes(value)).decode()}
        case _:
            raise TypeError(f"a key of type {type(value).__name__} cannot be kept: {value!r}")


def _decode(value: object) -> object:
    if not isinstance(value, dict):
        return value
    [(kind, text)] = value.items()
    readers: dict[str, Callable[[str], object]] = {
        "datetime": datetime.fromisoformat,
        "date": date.fromisoformat,
        "uuid": UUID,
        "decimal": Decimal,
        "bytes": base64.b64decode,
    }
    return readers[kind](text)
