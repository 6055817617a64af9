from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.worlds import migrated_url
from tests.web.shop import make_shop, populate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from gandy import Gandy

__all__ = ["migrated_url"]

HERE = "http://127.0.0.1:8423"
OPERATOR = "operator-token"
READER = "reader-token"


@asynccontextmanager
async def client_of(
    app: Gandy,
    *,
    base: str = HERE,
    host: str = "127.0.0.1",
    **options: Any,  # noqa: ANN401 what httpx takes
) -> AsyncIterator[httpx.AsyncClient]:
    """Call the dashboard of an open application, as somebody on a machine of that address."""
    asgi: Any = app.asgi()
    transport = httpx.ASGITransport(asgi, client=(host, 50_000), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=base, **options) as client:
        yield client


@pytest.fixture
async def shop(migrated_url: str) -> AsyncIterator[Gandy]:
    """An application that has worked a little, without tokens, on each database."""
    app = make_shop(migrated_url)
    async with app:
        await populate(app)
        yield app


@pytest.fixture
async def client(shop: Gandy) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody on this machine, by a program and not a browser."""
    async with client_of(shop) as found:
        yield found


@pytest.fixture
async def guarded(sqlite_url: str) -> AsyncIterator[Gandy]:
    """An empty application with both tokens set."""
    async with make_shop(sqlite_url, token=OPERATOR, readonly_token=READER) as app:
        yield app


@pytest.fixture
def calls(guarded: Gandy) -> Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]:
    """Make clients that call the guarded application."""

    def make(**options: Any) -> AbstractAsyncContextManager[httpx.AsyncClient]:  # noqa: ANN401 the same
        return client_of(guarded, **options)

    return make


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
