"""The REST interface, a module for each resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.web.routers import openapi, runs, trains

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.web.access.routes import Routes

ROUTERS: Final[Sequence[Routes]] = (runs.router, trains.router, openapi.router)
