"""The dashboard and the REST interface as one ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount

from gandy.context import Context
from gandy.desk.growth import GROWTH_AGE, Cached
from gandy.desk.lifecycle import HeldRules
from gandy.desk.tables import SIZES_AGE
from gandy.web import (
    dead_letters,
    groups,
    home,
    login,
    manifest_form,
    manifests,
    probes,
    problems,
    queue,
    runs,
    tables,
    workers,
)
from gandy.web.access.gate import Gate, Late
from gandy.web.choosing import pages as bulk
from gandy.web.hardening import Assets, Hardening
from gandy.web.measures import stats
from gandy.web.rendering import Rendering
from gandy.web.reports import audit, upcoming
from gandy.web.turns import RequestLimiter, TurnLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.settings import WebSettings
    from gandy.web.access.routes import Routes
    from gandy.web.dependencies import ContextSource


#: The REST interface, resource by resource.
ROUTERS: Final[Sequence[Routes]] = (
    manifests.router,
    groups.router,
    queue.router,
    runs.router,
    dead_letters.router,
    workers.train_router,
    workers.router,
    audit.router,
    upcoming.router,
    stats.router,
    tables.router,
    probes.openapi_router,
    probes.router,
)
#: The pages, in matching order.
PAGES: Final[Sequence[Routes]] = (
    login.pages,
    home.pages,
    manifest_form.pages,
    manifests.pages,
    groups.pages,
    runs.pages,
    bulk.runs,
    queue.pages,
    bulk.queue,
    dead_letters.pages,
    workers.pages,
    audit.pages,
    upcoming.pages,
    stats.pages,
    tables.pages,
)


def create_web(
    name: str,
    context: ContextSource,
    *,
    settings: Callable[[], WebSettings],
    kept: str | None = None,
    lifespan: Callable[..., Any] | None = None,
    is_whole: bool = True,
) -> FastAPI:
    """Create the dashboard and the REST interface; `context` and `settings` are called for each request.

    `kept` is the generated token, if none is set. Without `is_whole` it serves only probes and metrics.
    """
    gate = Gate(settings, context, kept=kept)
    rendering = Rendering(name)
    app = FastAPI(
        title="Gandy",
        summary=f"The job scheduler of {name}",
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        routes=routes() if is_whole else [*probes.router.routes],
        middleware=[
            Middleware(Late, gate=gate),
            Middleware(Hardening),
            Middleware(RequestLimiter, limits=lambda: _turns(context())),
        ],
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.gate = gate
    app.state.context = context
    app.state.rendering = rendering
    app.state.held_rules = HeldRules()
    app.state.growth, app.state.sizes = Cached(GROWTH_AGE), Cached(SIZES_AGE)
    problems.install(app, rendering)
    return app


def _turns(context: Context) -> TurnLimits:
    """Reserve half of the connection pool for the services of the same process."""
    return TurnLimits(at_once=max(1, context.settings.database.pool_size // 2))


def routes() -> list[BaseRoute]:
    """Return every route: the REST interface, the pages, and the static files."""
    found: list[BaseRoute] = [route for router in (*ROUTERS, *PAGES) for route in router.routes]
    return [*found, Mount("/static", Assets(), name="static")]
