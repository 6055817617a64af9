"""The trail of who did what; written in the transaction of the deed itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.store.searching import below, search
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.model.owners import Operator, Owners
    from gandy.store.searching import Search
    from gandy.store.statements import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One change that a person asked for."""

    owner: str
    action: str  #: a verb and its object, as in "cancel run"
    subject: str
    detail: Mapping[str, object] | None = None


def record_deed(operator: Operator, deed: Deed) -> Operation[None]:
    """Keep what was done, by whom and over which face."""
    yield statement(
        "record_deed",
        owner=deed.owner,
        actor=operator.name,
        face=operator.face,
        action=deed.action,
        subject=deed.subject,
        detail=None if deed.detail is None else json.dumps(deed.detail),
    )


def list_deeds(owners: Owners, *, before: int | None = None, limit: int = 50) -> Operation[Search]:
    """Read the trail, the newest first."""
    wanted = {"owner": owners.bound, "before": below(before)}
    return (yield from search("search_deeds", wanted, limit=limit))
