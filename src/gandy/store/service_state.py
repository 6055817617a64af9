"""What the services remember between cycles."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from gandy.store.statements import statement

if TYPE_CHECKING:
    from gandy.store.statements import Operation

#: A set that is refused alike as often as this, in a row, is charged after all: nothing may be stuck.
CHARGED_AFTER: Final = 3
_LONGEST_GAP: Final = timedelta(minutes=10)
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


def count_refusal(key: str, *, owner: str = EVERYBODY) -> Operation[int]:
    """Count that a whole set was refused alike, and give how often that was so in a row."""
    found = yield from recall(key, owner=owner)
    now: datetime = (yield statement("read_clock"))[0].now
    is_same_stretch = found and now - datetime.fromisoformat(found["at"]) <= _LONGEST_GAP
    count: int = found["count"] + 1 if is_same_stretch else 1
    yield from remember(key, {"count": count, "at": now.isoformat()}, owner=owner)
    return count
