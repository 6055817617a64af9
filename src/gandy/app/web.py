"""The dashboard of an application: to be mounted, or as a service of its own."""

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
    from gandy.services.supervisor import Service
    from gandy.services.wakeups import Wakeups
    from gandy.settings import Settings
    from gandy.web.parts import PartsSource, WebParts

Message: TypeAlias = MutableMapping[str, Any]


class ASGIApplication(Protocol):
    """What a server or another application can serve."""

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
    """Make the dashboard; served alone it opens the application, mounted the outer lifespan has to."""
    observe(app.events)
    return _create(app.name, lambda: parts_of(opened()), settings=app.settings, lifespan=app.lifespan)


def make_web(app: OpenApp, wakeups: Wakeups) -> Service:  # noqa: ARG001 every service is made so
    """Make the service that serves the dashboard."""
    observe(app.events)
    asgi = _create(app.name, lambda: parts_of(app), settings=app.settings)
    from gandy.web.serving import WebService  # noqa: PLC0415 an extra

    return WebService(asgi, app.settings.web)


def make_probes(app: OpenApp, wakeups: Wakeups) -> Service:  # noqa: ARG001 the same
    """Make the service that answers probes and serves metrics, and nothing else."""
    observe(app.events)
    asgi = _create(app.name, lambda: parts_of(app), settings=app.settings, is_whole=False)
    from gandy.web.serving import WebService  # noqa: PLC0415 an extra

    return WebService(asgi, app.settings.web)


def has_web() -> bool:
    """Whether what the dashboard is made of is installed."""
    return all(find_spec(name) is not None for name in ("fastapi", "jinja2", "uvicorn"))


def refuse_open_host(app: OpenApp) -> None:
    """Stop before anything starts where others could reach a dashboard without a token."""
    from gandy.web.serving import refuse_open_host as refuse  # noqa: PLC0415 an extra

    refuse(app.settings.web)


def parts_of(app: OpenApp) -> WebParts:
    """Show an open application as the dashboard sees it."""
    from gandy.web.parts import WebParts  # noqa: PLC0415 an extra

    return WebParts(
        owner=app.name,
        database=app.database,
        registry=app.registry,
        settings=app.settings,
        telemetry=observe(app.events),
        contracts=app.contracts,
    )


def _create(
    name: str,
    parts: PartsSource,
    *,
    settings: Settings,
    lifespan: Callable[..., Any] | None = None,
    is_whole: bool = True,
) -> ASGIApplication:
    try:
        from gandy.web.application import create_web  # noqa: PLC0415 an extra
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "gandy":
            raise
        raise MissingExtraError("the dashboard", "web") from error
    return create_web(name, parts, settings=settings.web, lifespan=lifespan, is_whole=is_whole)
