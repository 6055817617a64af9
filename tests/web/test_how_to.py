"""The guides and the example, run as they are written."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from examples.fastapi import app as example
from tests.support.waiting import eventually
from tests.web.conftest import OPERATOR, bearer

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs" / "how-to"


def calls(app: Any) -> httpx.AsyncClient:  # noqa: ANN401 an ASGI application
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=bearer(OPERATOR))


async def test_the_fastapi_example_takes_an_order_works_and_shows_it(sqlite_url: str) -> None:
    example.gandy.configure({"database": {"url": sqlite_url}, "web": {"token": OPERATOR}})
    async with example.web.router.lifespan_context(example.web), calls(example.web) as client:
        taken = await client.post("/orders", json={"number": 7, "email": "ada@example.org"})
        job = taken.json()["job"]

        async def done() -> bool:
            run = await client.get(f"/gandy/api/v1/runs/{job}")
            return run.status_code == 200 and run.json().get("output") == "sent to ada@example.org"

        await eventually(done, "the invoice is sent")
        page = await client.get(f"/gandy/runs/{job}")

    assert taken.status_code == 202
    assert "invoice 7 to ada@example.org" in page.text


async def test_a_mounted_dashboard_says_when_nobody_opened_the_application(sqlite_url: str) -> None:
    example.gandy.configure({"database": {"url": sqlite_url}, "web": {"token": OPERATOR}})
    async with calls(example.web) as client:
        answer = await client.get("/gandy/api/v1/runs")

    assert answer.status_code == 503
    assert "is not open" in answer.json()["detail"]


def test_the_guide_shows_the_example_as_it_is() -> None:
    source = (Path(__file__).parents[2] / "examples" / "fastapi" / "app.py").read_text(encoding="utf-8")
    guide = (DOCS / "fastapi.md").read_text(encoding="utf-8")
    block = guide.split("and a test runs it:\n\n")[1].split("\n\nA mounted")[0]
    shown = [line.removeprefix("    ") for line in block.splitlines() if line.strip()]

    assert [line for line in shown if line not in source.splitlines()] == []


@pytest.fixture
def django_project(tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The modules of the Django guide, in a project of their own."""
    page = (DOCS / "django.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n# shop/(\w+\.py)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, text in blocks:
        (package / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "shop.settings")  # as the page does
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("GANDY_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("GANDY_WEB_TOKEN", OPERATOR)
    yield [name for name, _ in blocks]
    for name in [name for name in sys.modules if name.split(".")[0] == "shop"]:
        del sys.modules[name]


async def test_the_django_guide_enqueues_from_a_view_and_mounts_the_dashboard(
    django_project: list[str],
) -> None:
    assert django_project
    # By name: Django has no types of its own, and the project is made by the fixture.
    settings = import_module("django.conf").settings
    if not settings.configured:
        settings.configure(
            SECRET_KEY="none",
            ROOT_URLCONF="shop.urls",
            ALLOWED_HOSTS=["*"],
            DATABASES={},
        )
        import_module("django").setup()
    request = (
        import_module("django.test")
        .RequestFactory()
        .post("/orders", '{"number": 7, "email": "ada@example.org"}', content_type="application/json")
    )
    answer = import_module("shop.views").take_order(request)
    import_module("shop.jobs").app.sync.close()
    served = import_module("shop.asgi").application
    async with served.router.lifespan_context(served), calls(served) as client:
        waiting = (await client.get("/gandy/api/v1/queue")).json()["items"]

    assert answer.status_code == 202
    assert [entry["train"] for entry in waiting] == ["send_invoice"]
