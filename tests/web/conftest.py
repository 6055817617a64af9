from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gandy.store.drivers.opening import migrate
from tests.support.statements import statements
from tests.support.worlds import migrated_url
from tests.web.shop import make_shop, populate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from gandy import Gandy
    from tests.support.databases import SqliteHome

__all__ = ["migrated_url", "statements"]

HERE = "http://127.0.0.1:8423"
OPERATOR = "the-token-of-operators"
READER = "the-token-of-readers"


@asynccontextmanager
async def client_of(
    app: Gandy,
    *,
    token: str | None = OPERATOR,
    base: str = HERE,
    host: str = "127.0.0.1",
    **options: Any,  # noqa: ANN401 what httpx takes
) -> AsyncIterator[httpx.AsyncClient]:
    """Call the dashboard of an open application, as a program that has a token, from an address.

    An application without a token is given one, so that it answers; None asks as it is.
    """
    if token is not None:
        if app.settings.web.token is None:
            app.configure({"web": {"token": OPERATOR}})
        options["headers"] = {**bearer(token), **options.get("headers", {})}
    asgi: Any = app.asgi()
    transport = httpx.ASGITransport(asgi, client=(host, 50_000), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=base, **options) as client:
        yield client


@asynccontextmanager
async def browser_of(app: Gandy, **options: Any) -> AsyncIterator[httpx.AsyncClient]:  # noqa: ANN401 the same
    """Call the dashboard as a browser does in which an operator has logged in."""
    async with client_of(app, **options) as client:
        del client.headers["Authorization"]
        await log_in(client)
        yield client


async def log_in(client: httpx.AsyncClient, token: str = OPERATOR, *, at: str = "") -> None:
    """Log in as a browser does; `at` is where the dashboard is mounted."""
    answer = await client.post(f"{at}/login", data={"token": token})
    assert answer.status_code == 303, answer.text


@pytest.fixture
async def shop(migrated_url: str) -> AsyncIterator[Gandy]:
    """An application that has worked a little, on each database."""
    app = make_shop(migrated_url)
    async with app:
        await populate(app)
        yield app


@pytest.fixture
async def client(shop: Gandy) -> AsyncIterator[httpx.AsyncClient]:
    """A program that has the operator's token."""
    async with client_of(shop) as found:
        yield found


@pytest.fixture
def sqlite_url(sqlite_home: SqliteHome) -> Iterator[str]:
    """A fresh SQLite file with Gandy's tables: how they come there is no matter of the dashboard."""
    template = sqlite_home.template("migrated", lambda url: (migrate(url), None)[1])
    with sqlite_home.database(template) as url:
        yield url


@pytest.fixture
async def guarded(sqlite_url: str) -> AsyncIterator[Gandy]:
    """An empty application with both tokens set."""
    async with make_shop(sqlite_url, token=OPERATOR, readonly_token=READER) as app:
        yield app


@pytest.fixture
def calls(guarded: Gandy) -> Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]:
    """Make clients that call the guarded application."""

    def make(**options: Any) -> AbstractAsyncContextManager[httpx.AsyncClient]:  # noqa: ANN401 the same
        return client_of(guarded, **{"token": None, **options})

    return make


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
