"""Settings that are good each alone and wrong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.settings.durations import format_duration
from gandy.settings.urls import supports_notify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.settings.sections import Settings


def find_contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Give the key of each setting that contradicts another, and what is wrong."""
    worker, web, database = settings.worker, settings.web, settings.database
    if 2 * worker.heartbeat_every > worker.lease_for:
        lease = format_duration(worker.lease_for)
        yield "worker.heartbeat_every", f"must be at most half of worker.lease_for ({lease})"
    if web.token is not None and web.token == web.readonly_token:
        yield "web.readonly_token", "must differ from web.token, or everybody may change everything"
    if database.notify_url is not None and not supports_notify(database.url):
        yield "database.notify_url", "has no use: database.url is a file, which notifies nobody; leave it out"
