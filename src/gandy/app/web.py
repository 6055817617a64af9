"""The dashboard of an application, to be mounted or as a service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gandy.errors import MissingExtraError
from gandy.telemetry.observing import observe

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from gandy.app.opening import OpenApp
    from gandy.events import EventBus
    from gandy.loops.supervisor import Service
    from gandy.loops.wakeups import Wakeups
    from gandy.settings import Settings, WebSettings
    from gandy.web.access.door import Door
    from gandy.web.parts import PartsSource, WebParts

Message: TypeAlias = MutableMapping[str, Any]


class ASGIApplication(Protocol):
    """An ASGI application."""

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Serve one connection."""
        ...


class _Opened(Protocol):
    name: str
    events: EventBus

    @property
    def settings(self) -> Settings: ...

    def lifespan(self, asgi_app: object = None) -> AbstractAsyncContextManager[None]: ...


def make_asgi(app: _Opened, opened: Callable[[], OpenApp]) -> ASGIApplication:
    """Make the dashboard; served alone it opens the application, mounted the outer lifespan must do so."""
    observe(app.events)
    return _create(
        app.name,
        lambda: parts_of(opened()),
        settings=lambda: app.settings.web,
        lifespan=app.lifespan,
    )


def make_web(app: OpenApp, wakeups: Wakeups) -> Service:  # noqa: ARG001 - the signature of all service factories
    """Make the service that serves the dashboard."""
    return _serve(app)


def make_probes(app: OpenApp, wakeups: Wakeups) -> Service:  # noqa: ARG001 - the same
    """Make the service that only answers probes and serves metrics."""
    return _serve(app, is_whole=False)


def _serve(app: OpenApp, *, is_whole: bool = True) -> Service:
    observe(app.events)
    door = check_door(app)
    asgi = _create(
        app.name,
        lambda: parts_of(app),
        settings=lambda: app.settings.web,
        kept=door.kept,
        is_whole=is_whole,
    )
    from gandy.web.serving import WebService  # noqa: PLC0415 - an extra

    return WebService(asgi, door, database=app.database if is_whole else None)


def has_web() -> bool:
    """Return whether the dependencies of the dashboard are installed."""
    return all(find_spec(name) is not None for name in ("fastapi", "jinja2", "uvicorn"))


def check_door(app: OpenApp) -> Door:
    """Raise before any service starts if tokens are invalid, or others could connect without a token."""
    from gandy.web.access.door import open_door  # noqa: PLC0415 - an extra

    return open_door(app.name, app.settings)


def parts_of(app: OpenApp) -> WebParts:
    """Return the dependencies of the dashboard."""
    from gandy.web.parts import WebParts  # noqa: PLC0415 - an extra

    return WebParts(
        owner=app.name,
        database=app.database,
        registry=app.registry,
        settings=app.settings,
        telemetry=observe(app.events),
        events=app.events,
        contracts=app.contracts,
    )


def _create(
    name: str,
    parts: PartsSource,
    *,
    settings: Callable[[], WebSettings],
    kept: str | None = None,
    lifespan: Callable[..., Any] | None = None,
    is_whole: bool = True,
) -> ASGIApplication:
    try:
        from gandy.web.application import create_web  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "gandy":
            raise
        raise MissingExtraError("the dashboard", "web") from error
    return create_web(name, parts, settings=settings, kept=kept, lifespan=lifespan, is_whole=is_whole)
