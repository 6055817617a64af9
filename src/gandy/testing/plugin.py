"""The pytest plugin: an application under test, on a clock and a database of the test.

pytest loads this module in every environment that has Gandy, so that it imports only what it needs.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gandy.app import Gandy
    from gandy.testing import Harness


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting of pytest that names the application."""
    parser.addini("gandy_app", 'the application of the fixtures of Gandy, as "module:name"')


@pytest.fixture
def gandy_app(pytestconfig: pytest.Config) -> Gandy:
    """The application that pytest's settings, GANDY_APP or gandy.toml name."""
    from gandy.app.loading import find_app, load_app  # noqa: PLC0415 - see above

    reference = pytestconfig.getini("gandy_app") or os.environ.get("GANDY_APP")
    app = load_app(reference, directory=pytestconfig.rootpath) if reference else find_app(None, {})
    if app is None:
        pytest.fail(
            'no application is named: set gandy_app = "module:name" in the settings of pytest, or override '
            "the fixture gandy_app",
            pytrace=False,
        )
    return app


@pytest.fixture
def gandy_now() -> datetime:
    """The instant at which the clock of a test starts."""
    return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def gandy_database() -> str | None:
    """The URL of an empty database for the test; None: a temporary SQLite file."""
    return None


def pytest_configure(config: pytest.Config) -> None:
    """Register the async fixture: pytest-asyncio has its own kind of fixture, anyio runs those of pytest."""
    make: Callable[..., object] = pytest.fixture
    if config.pluginmanager.hasplugin("asyncio"):
        from pytest_asyncio import fixture as make  # noqa: PLC0415 - need not be installed
    holder = ModuleType("gandy_harness")  # pytest looks for fixtures in modules and classes
    vars(holder)["gandy_harness"] = make(gandy_harness)
    config.pluginmanager.register(holder, "gandy-harness")


async def gandy_harness(
    gandy_app: Gandy, gandy_now: datetime, gandy_database: str | None
) -> AsyncIterator[Harness]:
    """The application, open under a clock that only the test moves."""
    from gandy.testing import Harness  # noqa: PLC0415 - see above

    async with Harness(gandy_app, now=gandy_now, database=gandy_database) as harness:
        yield harness
