"""Requests that may be sent again: the key of one is kept with the job that it came to."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.store.statements import statement

if TYPE_CHECKING:
    from gandy.store.statements import Operation

KEPT_FOR: Final = timedelta(days=1)


def find_answer(owner: str, key: str) -> Operation[int | None]:
    """Find the job that an earlier request came to; take the key where there was none."""
    seconds = KEPT_FOR.total_seconds()
    if (yield statement("take_request_key", owner=owner, key=key, keep_seconds=seconds)):
        return None
    rows = yield statement("find_key_holders", owner=owner, keys=[key])
    return int(rows[0].holder_id)


def keep_answer(owner: str, key: str, *, job_id: int) -> Operation[None]:
    """Remember which job the request came to."""
    yield statement("keep_answer", owner=owner, key=key, holder_id=job_id)
