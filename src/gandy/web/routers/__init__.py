"""The REST interface, a module for each resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.web.routers import (
    dead_letters,
    groups,
    lifecycle,
    manifests,
    openapi,
    probes,
    queue,
    runs,
    trains,
    workers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.web.access.routes import Routes

ROUTERS: Final[Sequence[Routes]] = (
    manifests.router,
    groups.router,
    queue.router,
    runs.router,
    dead_letters.router,
    trains.router,
    workers.router,
    lifecycle.router,
    openapi.router,
    probes.router,
)
