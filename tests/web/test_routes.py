"""Every route, taken from the router itself: a new one fails here until it says what it does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from starlette.routing import Mount

from gandy.errors import UndeclaredRouteError
from gandy.web.access.gate import Access
from gandy.web.access.routes import GuardedRoute, Routes
from gandy.web.application import routes
from tests.web.conftest import OPERATOR, READER, bearer

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    import httpx

    Calls = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]

GUARDED = [route for route in routes() if isinstance(route, GuardedRoute)]
CHANGING = [route for route in GUARDED if route.access is Access.CHANGES]
READING = [route for route in GUARDED if route.access is Access.READS]

#: What is answered without a token, each for a reason: the door itself, and probes that tell nothing.
LOGIN = {"/login", "/logout"}
PROBES = {"/healthz", "/readyz"}


def path_of(route: GuardedRoute) -> str:
    return re.sub(r"\{(\w+)(:\w+)?\}", "1", route.path)


def method_of(route: GuardedRoute) -> str:
    (method,) = route.methods or set()
    return method


def named(route: GuardedRoute) -> str:
    return f"{method_of(route)} {route.path}"


def test_every_route_passes_the_gate_but_for_the_files_that_pages_load() -> None:
    others = [route for route in routes() if not isinstance(route, GuardedRoute)]

    assert [route.path for route in others if isinstance(route, Mount)] == ["/static"]
    assert len(others) == 1


def test_only_the_door_and_the_probes_are_open() -> None:
    assert {route.path for route in GUARDED if route.access is Access.LOGIN} == LOGIN
    assert {route.path for route in GUARDED if route.access is Access.PROBE} == PROBES


def test_what_changes_something_is_a_post_or_a_delete_and_what_reads_is_a_get() -> None:
    assert len(CHANGING) > 30
    assert {method_of(route) for route in CHANGING} == {"POST", "DELETE"}
    assert {method_of(route) for route in READING} == {"GET"}


def test_a_route_that_does_not_say_what_it_does_cannot_be_made() -> None:
    router = Routes("/new")

    with pytest.raises(UndeclaredRouteError, match="/new/thing"):
        router.post("/thing")(lambda: None)


@pytest.mark.parametrize("route", CHANGING, ids=named)
async def test_a_read_only_token_changes_nothing(route: GuardedRoute, calls: Calls) -> None:
    async with calls(headers=bearer(READER)) as client:
        answer = await client.request(method_of(route), path_of(route), json={})

    assert answer.status_code == 403
    assert "this token is read-only" in answer.text


@pytest.mark.parametrize("route", CHANGING + READING, ids=named)
async def test_nobody_gets_in_without_a_token(route: GuardedRoute, calls: Calls) -> None:
    async with calls() as client:
        answer = await client.request(method_of(route), path_of(route))

    is_for_programs = route.path.startswith("/api/") or route.path == "/metrics"
    is_page = not is_for_programs and route.access is Access.READS
    assert answer.status_code == (303 if is_page else 401)


@pytest.mark.parametrize("route", CHANGING, ids=named)
async def test_another_site_changes_nothing_with_somebody_s_session(
    route: GuardedRoute, calls: Calls
) -> None:
    async with calls() as client:
        await client.post("/login", data={"token": OPERATOR})
        assert client.cookies
        headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        answer = await client.request(method_of(route), path_of(route), headers=headers)

    assert answer.status_code == 403
    assert "evil.example" in answer.text


@pytest.mark.parametrize("route", CHANGING, ids=named)
async def test_a_session_changes_nothing_without_the_token_of_its_forms(
    route: GuardedRoute, calls: Calls
) -> None:
    async with calls() as client:
        await client.post("/login", data={"token": OPERATOR})
        headers = {"Sec-Fetch-Site": "same-origin"}
        answer = await client.request(method_of(route), path_of(route), headers=headers)

    assert answer.status_code == 403
    assert "no longer valid" in answer.text
