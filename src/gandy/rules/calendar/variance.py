"""Jitter: the same manifest and instant always give the same delay, on every server."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from gandy.rules.calendar.zones import EPOCH

if TYPE_CHECKING:
    from typing import Final

_MOMENT: Final = timedelta(microseconds=1)
_NONE: Final = timedelta(0)


def scheduled_at(
    external_id: str, due_at: datetime, variance: timedelta, *, next_due_at: datetime | None
) -> datetime:
    """Delay an instant by 0 to `variance`, and always to before the next one."""
    if variance <= _NONE:
        return due_at
    if next_due_at is not None:
        variance = min(variance, next_due_at - due_at - _MOMENT)
    seed = f"{external_id}\n{(due_at - EPOCH) // _MOMENT}".encode()
    drawn = int.from_bytes(blake2b(seed, digest_size=8).digest())
    return due_at + drawn % (variance // _MOMENT + 1) * _MOMENT
