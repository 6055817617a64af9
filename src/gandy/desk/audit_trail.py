"""Who did what, over which face."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 the faces read it at run time
from typing import TYPE_CHECKING, Any, TypeAlias

from gandy.desk.listing import Listed
from gandy.store.audit import list_deeds

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.statements import Row

Json: TypeAlias = Any  # what each deed says about itself


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change that a person asked for."""

    id: int
    at: datetime
    owner: str
    actor: str
    face: str
    action: str
    subject: str
    detail: Json


async def read_trail(
    database: ReadingRunner, owners: Owners, *, before: int | None = None, limit: int = 50
) -> Listed[AuditEntry]:
    """Read the trail, the newest first."""
    return Listed.of(await database.read(list_deeds(owners, before=before, limit=limit)), _entry)


def _entry(row: Row) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        at=row.at,
        owner=row.owner,
        actor=row.actor,
        face=row.face,
        action=row.action,
        subject=row.subject,
        detail=None if row.detail is None else json.loads(row.detail),
    )
