"""The whole of it as one ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount

from gandy.desk.lifecycle import HeldRules
from gandy.web import problems
from gandy.web.access.gate import Gate
from gandy.web.access.lateness import Late
from gandy.web.assets import Assets
from gandy.web.hardening import Hardening
from gandy.web.pages import PAGES
from gandy.web.rendering import Rendering
from gandy.web.routers import ROUTERS, probes
from gandy.web.turns import TurnLimits, Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.settings import WebSettings
    from gandy.web.parts import PartsSource, WebParts


def create_web(
    name: str,
    parts: PartsSource,
    *,
    settings: Callable[[], WebSettings],
    kept: str | None = None,
    lifespan: Callable[..., Any] | None = None,
    is_whole: bool = True,
) -> FastAPI:
    """Make the dashboard and the REST interface of an application; requests ask for `parts` and `settings`.

    `kept` is the token that was made where none is set. Not whole, it only answers probes and serves metrics.
    """
    gate = Gate(settings, parts, kept=kept)
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
            Middleware(Turns, limits=lambda: _turns(parts())),
        ],
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.gate = gate
    app.state.parts = parts
    app.state.rendering = rendering
    app.state.held_rules = HeldRules()
    problems.install(app, rendering)
    return app


def _turns(parts: WebParts) -> TurnLimits:
    """Half of the connections to the database are for the services of the same process."""
    return TurnLimits(at_once=max(1, parts.settings.database.pool_size // 2))


def routes() -> list[BaseRoute]:
    """Every route: the pages, the REST interface, and the files that pages load."""
    found: list[BaseRoute] = [route for router in (*ROUTERS, *PAGES) for route in router.routes]
    return [*found, Mount("/static", Assets(), name="static")]
