"""A manifest whose letter is resolved goes on: what came due while it waited gets its one verdict."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gandy.model.schedule import Cron, Interval
from gandy.rules.recurring import settle_letter
from gandy.store.manifests import advance, load_views, read_now, record_skips

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gandy.model.manifest import Decision, DispatchView
    from gandy.store.statements import Operation

_log = logging.getLogger("gandy.dead_letters")


def settle_letters(since: Mapping[int, datetime]) -> Operation[None]:
    """Settle what came due since each manifest's letter was written, and let its cursor go on from now."""
    found = yield from load_views(since)
    now = yield from read_now()
    views = [view for view in found.views if view.id not in found.unreadable]
    settled = [(view, _settle(view, since[view.id], now)) for view in views]
    decided = [(view, decision) for view, decision in settled if decision is not None]
    moved = (yield from advance(decided)).moved
    skips = [(view.id, skip, None) for view, decision in decided for skip in decision.skipped]
    yield from record_skips([row for row in skips if row[0] in moved])


def _settle(view: DispatchView, since: datetime, now: datetime) -> Decision | None:
    """Settle one; where that cannot be done here, the next cycle says why in a verdict."""
    if not isinstance(view.schedule, Cron | Interval):
        return None
    try:
        return settle_letter(view, view.schedule, since=since, now=now)
    except Exception as error:  # noqa: BLE001 whatever one schedule raises, the letters are resolved
        _log.error("what came due at %s while its letter waited has no verdict: %s", view.external_id, error)
        return None
