"""`app.audit` and `app.upcoming`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.app.verbs.face import Face, Verb, Verbs
from gandy.desk.audit import read_trail
from gandy.desk.upcoming import DEFAULT_SPAN, UpcomingFilter, list_upcoming
from gandy.store.audit import DeedFilter

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.desk.audit import AuditEntry, Listed
    from gandy.desk.upcoming import ComingManifests


class AuditVerbs(Verbs[Face]):
    """The verbs of `gandy audit`."""

    noun = "audit"

    @Verb
    async def list(
        self,
        *,
        by: str | None = None,
        on: str | None = None,
        since: timedelta | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Listed[AuditEntry]:
        """List changes by operators, the newest first; `on` takes an id of whatever was changed."""
        wanted = DeedFilter(by=by, subject=on, since=since, before=before, limit=limit)
        return await read_trail(self._context.database, self._context.owners, wanted)


class UpcomingVerbs(Verbs[Face]):
    """The verb of `gandy upcoming`."""

    noun = "upcoming"

    @Verb
    async def list(
        self, *, within: timedelta = DEFAULT_SPAN, after: str | None = None, limit: int = 50
    ) -> ComingManifests:
        """List the next instants of all manifests in order, and what will hold them back."""
        wanted = UpcomingFilter(within=within, after=after, limit=limit)
        return await list_upcoming(self._context.database, self._context.owners, wanted)
