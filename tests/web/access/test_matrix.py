"""No one gets in where they do not belong: configurations, credentials and routes, each with each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.access.matrix import CONFIGURATIONS, Configuration, walk
from tests.web.access.routes import ROUTES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda each: each.name)
async def test_every_route_lets_in_whom_it_should_and_no_other(
    configuration: Configuration, tmp_path: Path
) -> None:
    counted = await walk(configuration, tmp_path)

    assert counted.wrong == []
    assert counted.credentials >= 20
    assert sum(counted.verdicts.values()) == counted.credentials * len(ROUTES)


def test_the_matrix_knows_pages_rest_probes_and_files() -> None:
    found = {str(asked) for asked in ROUTES}

    assert len(found) >= 85
    assert {"GET /", "POST /login", "GET /metrics", "GET /static/app.css", "GET /api/v1/runs"} <= found
