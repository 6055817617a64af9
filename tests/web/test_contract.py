"""The REST interface against its own OpenAPI document, with requests that nobody thought of."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gandy.web.access.routes import GuardedRoute
from gandy.web.application import routes
from tests.web.conftest import OPERATOR, bearer
from tests.web.shop import make_shop
from tests.web.test_routes import method_of

if TYPE_CHECKING:
    from pathlib import Path

    from gandy import Gandy

pytestmark = pytest.mark.timeout(300)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    response_schema_conformance,
    response_headers_conformance,
]


@pytest.fixture(scope="module")
def interface(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401 the library's own
    """The interface of an application on an embedded database, as its document describes it."""
    folder: Path = tmp_path_factory.mktemp("contract")
    app = make_shop(f"sqlite:///{folder / 'gandy.db'}", token=OPERATOR)
    asyncio.run(_seed(app))
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app.asgi(), headers=bearer(OPERATOR))


async def _seed(app: Gandy) -> None:
    async with app:
        await app.seed()


OPERATIONS = sorted(
    (re.sub(r":path", "", route.path), method_of(route))
    for route in routes()
    if isinstance(route, GuardedRoute) and route.include_in_schema
)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_one_that_the_document_promises(interface: Any, path: str, method: str) -> None:  # noqa: ANN401 the same
    operation = interface[path][method]

    @settings(
        max_examples=20, phases=[Phase.generate], suppress_health_check=list(HealthCheck), deadline=None
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:  # noqa: ANN401 the same
        case.call_and_validate(checks=CHECKS, headers=bearer(OPERATOR))

    ask()
