"""Keys of rows as JSON text and back, as cursors and quarantined rows are kept; texts that are not UTF-8."""

from __future__ import annotations

import base64
import json
import re
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

_READERS: dict[str, Callable[[str], object]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "uuid": UUID,
    "decimal": Decimal,
    "bytes": base64.b64decode,
    "text": str,
}

# A question mark within quotes is a part of a name or a text.
_MARK = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(\?)""")


def read_text(stored: bytes) -> str:
    """A text of SQLite, which may hold any bytes: those that are not UTF-8 become lone surrogates."""
    return stored.decode(errors="surrogateescape")


def bind_texts(statement: str, parameters: Any) -> tuple[str, Any]:  # noqa: ANN401  # the driver's own
    """Send texts that `read_text` gave back as they were stored: as bytes that SQLite reads as a text."""
    if not isinstance(parameters, tuple) or not any(map(_is_broken, parameters)):
        return statement, parameters
    values = iter(parameters)

    def marked(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return "CAST(? AS TEXT)" if _is_broken(next(values)) else "?"

    return _MARK.sub(marked, statement), tuple(
        value.encode(errors="surrogateescape") if _is_broken(value) else value for value in parameters
    )


def _is_broken(value: object) -> bool:
    if not isinstance(value, str) or value.isascii():
        return False
    return any("\udc80" <= each <= "\udcff" for each in value)


def encode_values(values: tuple[object, ...]) -> str:
    """Write values so that `decode_values` gives equal ones back."""
    return json.dumps([_encode(value) for value in values])


def decode_values(text: str) -> tuple[object, ...]:
    """Read what `encode_values` wrote."""
    return tuple(_decode(value) for value in json.loads(text))


def _encode(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind, text = _tagged(value)
    return {kind: text}


def _tagged(value: object) -> tuple[str, str]:
    match value:
        case datetime():
            return "datetime", value.isoformat()
        case date():
            return "date", value.isoformat()
        case UUID():
            return "uuid", str(value)
        case Decimal():
            return "decimal", str(value)
        case bytes() | memoryview():
            return "bytes", base64.b64encode(bytes(value)).decode()
        case _:  # the database reads its own way of writing it back
            return "text", str(value)


def _decode(value: object) -> object:
    """What was written by hand, or by another version, is taken as it is."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    [(kind, text)] = value.items()
    try:
        return _READERS[kind](text)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return value
