"""The dashboard of an application, to be mounted or as a service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gandy.errors import MissingExtraError
from gandy.telemetry.observing import observe

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from gandy.context import Context
    from gandy.events import EventBus
    from gandy.loops.supervisor import Service
    from gandy.settings import Settings, WebSettings
    from gandy.web.access.access import WebAccess
    from gandy.web.serving import Port

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


def make_asgi(app: _Opened, opened: Callable[[], Context]) -> ASGIApplication:
    """Make the dashboard; served alone it opens the application, mounted the outer lifespan must do so."""
    observe(app.events)
    return _create(
        app.name,
        opened,
        settings=lambda: app.settings.web,
        lifespan=app.lifespan,
    )


def make_web(context: Context, port: Port | None = None) -> Service:
    """Make the service that serves the dashboard."""
    return _serve(context, port)


def make_probes(context: Context, port: Port) -> Service:
    """Make the service that only answers probes and serves metrics."""
    return _serve(context, port, is_whole=False)


def _serve(context: Context, port: Port | None, *, is_whole: bool = True) -> Service:
    observe(context.events)
    access = check_access(context)
    asgi = _create(
        context.owner,
        lambda: context,
        settings=lambda: context.settings.web,
        kept=access.kept,
        is_whole=is_whole,
    )
    from gandy.web.serving import WebService  # noqa: PLC0415 - an extra

    return WebService(asgi, access, database=context.database if is_whole else None, port=port)


def has_web() -> bool:
    """Return whether the dependencies of the dashboard are installed."""
    return all(find_spec(name) is not None for name in ("fastapi", "jinja2", "uvicorn"))


def bind_web(context: Context) -> Port:
    """Bind the port; raise before any service starts if the extra is missing, or a token is invalid."""
    if not has_web():
        raise MissingExtraError("the dashboard", "web")
    check_access(context)
    from gandy.web.serving import Port  # noqa: PLC0415 - an extra

    port = Port(context.settings.web)
    port.bind()
    return port


def check_access(context: Context) -> WebAccess:
    """Raise if tokens are invalid, or others could connect without a token."""
    from gandy.web.access.access import open_access  # noqa: PLC0415 - an extra

    return open_access(context.owner, context.settings)


def _create(
    name: str,
    context: Callable[[], Context],
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
    return create_web(name, context, settings=settings, kept=kept, lifespan=lifespan, is_whole=is_whole)
