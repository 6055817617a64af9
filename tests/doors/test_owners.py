"""Every route and every bulk form, with another owner's ids: it is not there, and nothing happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gandy.web.access.gate import Access
from tests.doors.calls import GUARDED, Call, calls, client_of, parameters
from tests.doors.neighbours import (
    CALLER,
    NEIGHBOUR,
    THEIRS,
    belonging_to,
    belongings,
    changes_between,
    make_app,
    snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import httpx

    from gandy.web.access.routes import GuardedRoute
    from tests.doors.neighbours import Belongings

    Bulk = Callable[[Belongings], list[tuple[int, Mapping[str, Any]]]]

WITH_ID = [route for route in GUARDED if parameters(route)]
LISTING = [route for route in GUARDED if not parameters(route) and route.access is Access.READS]
BULK = [route for route in GUARDED if not parameters(route) and route.access is Access.CHANGES]
#: Names that both applications use, by the parameter that takes them.
SHARED: Mapping[str, Sequence[object]] = {"external_id": ("nightly", "paused"), "name": ("etl",)}


def _each_letter(found: Belongings, **more: Any) -> list[tuple[int, Mapping[str, Any]]]:  # noqa: ANN401 a body
    return [(404, {"ids": [letter], **more}) for letter in found.letters]


def _resolved(found: Belongings) -> list[tuple[int, Mapping[str, Any]]]:
    forms: list[tuple[int, Mapping[str, Any]]] = []
    for verb in ("requeue", "acknowledge"):
        forms += _each_letter(found, verb=verb, scope="selected", note="no")
        forms.append((303, {"verb": verb, "scope": "all", "note": "no"}))
        forms.append((404, {"verb": verb, "scope": "all", "train": "theirs_only", "note": "no"}))
    return forms


#: The forms that take many ids or none: what to send, and the answer. A new one has to be added here.
BULK_FORMS: Mapping[str, Bulk] = {
    "/api/v1/dead-letters/requeue": lambda found: [
        *_each_letter(found),
        (404, {"ids": found.letters}),
        (200, {"all": True}),
        (200, {"all": True, "manifest": "parked"}),
        (404, {"all": True, "train": "theirs_only"}),
    ],
    "/api/v1/dead-letters/acknowledge": lambda found: [
        *_each_letter(found, note="no"),
        (200, {"all": True, "note": "no"}),
        (200, {"all": True, "manifest": "parked", "note": "no"}),
    ],
    "/dead-letters/preview": lambda found: _each_letter(found, verb="requeue", scope="selected"),
    "/dead-letters/resolve": _resolved,
    "/api/v1/queue/enqueue": lambda _: [
        (404, {"train": THEIRS, "input": 1}),
        (200, {"train": "send", "input": 1}),
    ],
    "/api/v1/runs/cancel": lambda found: [
        (404, {"ids": found.jobs}),
        (404, {"train": THEIRS}),
        (404, {"manifest": THEIRS}),
        (200, {"train": "send", "state": "in_progress"}),
    ],
    "/api/v1/runs/rerun": lambda found: [
        (404, {"ids": found.jobs}),
        (404, {"train": THEIRS}),
        (404, {"manifest": THEIRS}),
        (200, {"train": "send", "state": "failed", "preview": True}),
        (200, {"error_has": "unlucky"}),
        (200, {"train": "send", "state": "failed"}),
    ],
    "/runs/preview": lambda found: [
        (200, {"verb": "rerun", "scope": "selected", "ids": found.jobs[0]}),
        (200, {"verb": "rerun", "scope": "all", "error_has": "unlucky"}),
        (200, {"verb": "cancel", "scope": "all", "train": "send"}),
    ],
    "/runs/apply": lambda found: [
        *[(404, {"verb": verb, "scope": "selected", "ids": found.jobs[0]}) for verb in ("cancel", "rerun")],
        (303, {"verb": "rerun", "scope": "all", "error_has": "unlucky"}),
        (303, {"verb": "cancel", "scope": "all", "train": "send"}),
    ],
    "/queue/preview": lambda found: [
        (200, {"verb": "cancel", "scope": "selected", "ids": found.jobs[0]}),
        (200, {"verb": "cancel", "scope": "all", "group": "etl"}),
    ],
    "/queue/apply": lambda found: [
        (404, {"verb": "cancel", "scope": "selected", "ids": found.jobs[0]}),
        (303, {"verb": "cancel", "scope": "all", "group": "etl"}),
    ],
    "/api/v1/queue/cancel": lambda found: [
        (404, {"ids": found.jobs}),
        (404, {"train": THEIRS}),
        (200, {"group": "etl"}),
    ],
    "/api/v1/manifests": lambda _: [
        (404, {"external_id": "new", "train": THEIRS}),
        (200, {"external_id": "new", "train": "send", "input": 1}),
    ],
    "/api/v1/lifecycle/sweep": lambda _: [(404, {"scheduler": THEIRS})],
}


def named(route: GuardedRoute) -> str:
    return f"{'|'.join(route.methods or ())} {route.path}"


async def test_another_owners_id_is_not_there_on_any_route_and_nothing_happens(shared_url: str) -> None:
    known = _ids_of(belongings(shared_url, NEIGHBOUR))
    async with make_app(CALLER, shared_url) as app, client_of(app) as client:
        before = snapshot(shared_url)
        for route in WITH_ID:
            await _refused([*calls(route, known)], client)
            if route.access is Access.CHANGES:
                assert changes_between(before, snapshot(shared_url)) == {}, named(route)

        assert changes_between(before, snapshot(shared_url)) == {}


async def _refused(asked: list[Call], client: httpx.AsyncClient) -> None:
    assert asked
    for call in asked:
        answer = await call.send(client)
        assert answer.status_code == 404, (call, answer.status_code, answer.text)
        assert NEIGHBOUR not in answer.text, call


async def test_a_name_that_both_use_is_the_callers_own(shared_url: str) -> None:
    async with make_app(CALLER, shared_url) as app, client_of(app) as client:
        before = belonging_to(NEIGHBOUR, shared_url)
        for route in WITH_ID:
            if set(parameters(route)) <= set(SHARED):
                for call in calls(route, SHARED):
                    answer = await call.send(client)
                    assert answer.status_code in {200, 204, 303, 409, 422}, (call, answer.text)
                    assert NEIGHBOUR not in answer.text, call

        assert changes_between(before, belonging_to(NEIGHBOUR, shared_url)) == {}


async def test_every_bulk_form_touches_only_the_callers_rows(shared_url: str) -> None:
    found = belongings(shared_url, NEIGHBOUR)
    assert {route.path for route in BULK} == set(BULK_FORMS)
    async with make_app(CALLER, shared_url) as app, client_of(app) as client:
        before, whole = belonging_to(NEIGHBOUR, shared_url), snapshot(shared_url)
        for expected in (404, 200, 303):
            for path, forms in BULK_FORMS.items():
                for status, body in forms(found):
                    if status == expected:
                        call = Call("POST", path, path, body, is_form=not path.startswith("/api/"))
                        answer = await call.send(client)
                        assert answer.status_code == status, (call, answer.text)
            if expected == 404:
                assert changes_between(whole, snapshot(shared_url)) == {}

        assert changes_between(before, belonging_to(NEIGHBOUR, shared_url)) == {}
        assert changes_between(whole, snapshot(shared_url)), "the caller's own letters were resolved"


@pytest.mark.parametrize("query", ["", "?manifest=theirs_only", "?train=theirs_only", "?group=theirs_only"])
async def test_no_listing_shows_anything_of_another_owner(shared_url: str, query: str) -> None:
    found = belongings(shared_url, NEIGHBOUR)
    async with make_app(CALLER, shared_url) as app, client_of(app) as client:
        for route in LISTING:
            answer = await client.get(route.path + query)
            assert answer.status_code in {200, 422}, (route.path, answer.text)
            shown = answer.text.replace(THEIRS, "", answer.text.count("theirs_only") if query else 0)
            assert THEIRS not in shown, route.path
            assert NEIGHBOUR not in shown, route.path
            if route.path in {"/api/v1/runs", "/api/v1/queue", "/api/v1/dead-letters"}:
                listed = {each["id"] for each in answer.json().get("items", ())}
                own = found.letters if "letters" in route.path else found.jobs
                assert not listed & set(own), route.path


def _ids_of(found: Belongings) -> dict[str, Sequence[object]]:
    """Give every path parameter the neighbour's ids; one that is not here fails the test."""
    return {
        "run_id": found.jobs,
        "entry_id": found.jobs,
        "letter_id": found.letters,
        "worker_id": [found.worker],
        "external_id": [THEIRS],
        "name": [THEIRS],
        "train": [THEIRS],
        "scheduler": [THEIRS],
    }
