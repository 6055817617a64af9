"""What the services remember between cycles."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gandy.store.statements import statement

if TYPE_CHECKING:
    from gandy.store.statements import Operation

#: What concerns every application of a database.
EVERYBODY = ""


def recall(key: str, *, owner: str = EVERYBODY) -> Operation[Any]:
    """Read what was remembered under a key; None where nothing was."""
    rows = yield statement("recall", owner=owner, key=key)
    return json.loads(rows[0].value) if rows else None


def remember(key: str, value: object, *, owner: str = EVERYBODY) -> Operation[None]:
    """Remember a value; None forgets it."""
    if value is None:
        yield statement("forget", owner=owner, key=key)
    else:
        yield statement("remember", owner=owner, key=key, value=json.dumps(value))


def take_turn(key: str, *, every_seconds: float, owner: str = EVERYBODY) -> Operation[bool]:
    """Answer yes to one caller in so many seconds, whichever server it is on."""
    rows = yield statement("take_turn", owner=owner, key=key, every_seconds=every_seconds)
    return bool(rows)
