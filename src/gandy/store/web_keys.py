"""The random parts of sessions and one-time codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.store.statements import statement

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.store.statements import Operation, Rows

KeyKind: TypeAlias = Literal["session", "code"]

#: The newest of each kind that are kept for one token.
MOST_KEYS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WebKey:
    """What is kept of a session or a code: nothing that opens a door by itself."""

    id: str
    secret: str
    token: str
    name: str


def keep_web_key(owner: str, kind: KeyKind, key: WebKey, *, keep_for: timedelta) -> Operation[None]:
    """Keep a key, and drop the oldest beyond the limit."""
    yield statement("drop_surplus_web_keys", owner=owner, kind=kind, token=key.token, most=MOST_KEYS - 1)
    yield statement(
        "keep_web_key",
        id=key.id,
        owner=owner,
        kind=kind,
        secret=key.secret,
        token=key.token,
        name=key.name,
        keep_seconds=keep_for.total_seconds(),
    )


def find_web_key(owner: str, kind: KeyKind, id: str) -> Operation[WebKey | None]:
    """Read a key whose time is not over."""
    return _key(id, (yield statement("find_web_key", id=id, owner=owner, kind=kind)))


def take_web_key(owner: str, kind: KeyKind, id: str) -> Operation[WebKey | None]:
    """Take a key away for good; of several who do, one gets it, and none once its time is over."""
    rows = yield statement("take_web_key", id=id, owner=owner, kind=kind)
    return _key(id, rows) if rows and rows[0].is_valid else None


def _key(id: str, rows: Rows) -> WebKey | None:
    return WebKey(id=id, secret=rows[0].secret, token=rows[0].token, name=rows[0].name) if rows else None
