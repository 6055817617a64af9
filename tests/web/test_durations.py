"""Every duration of the REST interface is a number of seconds or text, and is refused with name and range."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.web.conftest import OPERATOR, client_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    import httpx

    from gandy import Gandy

Schema = dict[str, Any]
ACCEPTED = [90, 90.5, "90s", "1m30s", "90000ms"]
#: A value that no duration takes, and what is said about it.
REFUSED = [
    ("soon", "'soon'"),
    (-1, "must be a duration from"),
    ("40000d", "'40000d'"),
    (1e300, "must be a duration from"),
    ("nan", "'nan'"),
]


class Parameter(NamedTuple):
    """A field of a query or of a body that takes a duration."""

    method: str
    path: str
    place: str
    name: str

    async def refusal(self, client: httpx.AsyncClient, value: object) -> str:
        """Send a value, beside a field that does not exist: nothing is done, whatever the value is."""
        url = f"/api/v1{self.path}"
        given = {self.name: value, "no_such_field": "1"}
        if self.place == "query":
            answer = await client.get(url, params={key: str(each) for key, each in given.items()})
        else:
            answer = await client.request(self.method, url, json=given)
        assert answer.status_code == 422, answer.text
        detail: str = answer.json()["detail"]
        assert f"{self.place}.no_such_field" in detail
        return detail


def resolved(schema: Schema, whole: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    return whole["components"]["schemas"][name] if name else schema


def fields_of(whole: Schema) -> Iterator[tuple[Parameter, Schema]]:
    """List every field of every query and every body."""
    for path, operations in whole["paths"].items():
        place = re.sub(r"\{\w+\}", "1", path.removeprefix("/api/v1"))
        for method, operation in operations.items():
            for each in operation.get("parameters", ()):
                if each["in"] == "query":
                    yield Parameter(method.upper(), place, "query", each["name"]), each
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            body = content.get("schema", {})
            for part in (body, *body.get("anyOf", ())):
                for name, each in resolved(part, whole).get("properties", {}).items():
                    yield Parameter(method.upper(), place, "body", name), each


@pytest.fixture
async def empty(guarded: Gandy) -> AsyncIterator[httpx.AsyncClient]:
    """A program that calls an application without jobs."""
    async with client_of(guarded, token=OPERATOR) as client:
        yield client


async def described(client: httpx.AsyncClient) -> Mapping[Parameter, Schema]:
    return dict(fields_of((await client.get("/api/v1/openapi.json")).json()))


def is_duration(schema: Schema) -> bool:
    return "In seconds." in json.dumps(schema)


async def test_a_field_that_speaks_of_a_span_takes_durations(empty: httpx.AsyncClient) -> None:
    spans = re.compile(r"second|duration|period|delay|\bspan\b|timeout", re.IGNORECASE)
    others = {"cron", "by"}  # a field of seconds; the rows of a span
    found = await described(empty)

    assert [
        each
        for each, schema in found.items()
        if each.name not in others
        and spans.search(f"{each.name} {schema.get('description', '')}")
        and not is_duration(schema)
    ] == []
    assert len([each for each, schema in found.items() if is_duration(schema)]) > 30


async def test_every_route_gives_the_same_answer_to_the_same_duration(empty: httpx.AsyncClient) -> None:
    durations = [each for each, schema in (await described(empty)).items() if is_duration(schema)]
    for parameter in durations:
        name = f"{parameter.place}.{parameter.name}:"
        for value in ACCEPTED:
            assert name not in await parameter.refusal(empty, value), (parameter, value)
        for value, said in REFUSED:
            detail = await parameter.refusal(empty, value)
            assert re.search(rf"{re.escape(name)}[^;]*{said}", detail), (parameter, value, detail)
            assert re.search(r"a duration from \S+ to \d+d", detail), (parameter, value, detail)
