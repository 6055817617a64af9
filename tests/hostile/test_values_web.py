"""Every hostile value at every field of every body, query and form of the web interface."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest

from gandy.settings.bounds import BOUNDS
from gandy.settings.values import is_storable
from tests.hostile.values import HOSTILE, Hostile, Judge, as_json, as_text, innocent, make_app, still_works
from tests.support.worlds import migrated_url
from tests.web.conftest import HERE, browser_of, client_of
from tests.web.test_access import form_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    import httpx

    from gandy import Gandy

__all__ = ["migrated_url"]

HTTP_REFUSED: Final = frozenset({400, 404, 409, 422})
#: What a field must hold for the rest of its body to be looked at.
USUAL: Final[Mapping[str, object]] = {
    "all": True,  # of dead letters
    "external_id": "made-here", "train": "innocent", "note": "seen", "input": 1, "priority": 1,
    "scheduler": "gandy", "table": "t",
}  # fmt: skip
BROWSER: Final = {"Origin": HERE}
PLACES: Final = {"external_id": "kept", "name": "calm", "train": "innocent"}
FORMS: Final = {
    "/manifests/kept/set": (
        "timeout", "retry_delay", "variance", "misfire_threshold", "keep_for", "keep_last",
        "max_retries", "priority", "group", "every", "cron", "timezone", "retry", "misfire",
    ),
    "/manifests/kept/trigger": ("minutes",),
    "/manifests/kept/disable": ("reason",),
    "/groups/calm/set": ("max_active_jobs", "priority"),
    "/groups/calm/disable": ("reason",),
}  # fmt: skip
PAGES: Final = (
    "/",
    "/queue",
    "/runs",
    "/manifests",
    "/manifests/kept",
    "/groups",
    "/groups/calm",
    "/dead-letters",
)


@pytest.fixture
async def app(migrated_url: str) -> AsyncIterator[Gandy]:
    async with make_app(migrated_url) as opened:
        await opened.seed()
        await opened.enqueue(innocent, 1)
        await still_works(opened)
        yield opened


def operations(description: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Find every POST that takes a body, with the fields of that body."""
    for path, methods in description["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        if schema is not None:
            yield _filled(path), _fields(description, schema)


def _filled(path: str) -> str:
    for name, value in PLACES.items():
        path = path.replace("{" + name + "}", value)
    return path.replace("{run_id}", "1").replace("{letter_id}", "1").replace("{entry_id}", "1")


def _fields(description: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    for each in (schema, *schema.get("anyOf", ())):
        if "$ref" in each:
            found = description["components"]["schemas"][each["$ref"].rsplit("/", 1)[-1]]
            properties: Mapping[str, Any] = found["properties"]
            return {"required": found.get("required", []), "properties": properties}
    return {"required": [], "properties": {}}


async def test_every_field_of_every_body_refuses_by_name_or_accepts(app: Gandy) -> None:
    judge = Judge()
    async with client_of(app) as client:
        description = (await client.get("/api/v1/openapi.json")).json()
        found = list(operations(description))
        assert len(found) >= 8
        for path, body in found:
            for number, field in enumerate(body["properties"]):
                base = {name: USUAL[name] for name in body["properties"] if name in USUAL}
                for hostile in _share(HOSTILE, number):
                    if app.database.dialect == "sqlite" or not _is_refused(field, as_json(hostile.value)):
                        await _post(client, judge, path, field=field, base=base, hostile=hostile)
        await _look(client, judge)
    judge.close()
    await still_works(app)


#: What a body of a bulk change calls otherwise than the table of bounds.
MOMENTS = {"since": "moment", "until": "moment"}


async def _post(
    client: httpx.AsyncClient,
    judge: Judge,
    path: str,
    *,
    field: str,
    base: Mapping[str, object],
    hostile: Hostile,
) -> None:
    text = as_json(hostile.value)
    if text is None:
        return
    body = json.dumps({**base, field: 0}).replace(f'"{field}": 0', f'"{field}": {text}')
    answer = await client.post(path, content=body, headers={"Content-Type": "application/json"})
    _judge(judge, f"{path} {field}", hostile, answer, word=field)
    if _is_refused(field, text) and answer.is_success:
        judge.note(f"{path} {field}", hostile, "accepted here only")


def _is_refused(field: str, text: str | None) -> bool:
    """Tell whether the table refuses a value, so that no database sees it."""
    try:
        field = MOMENTS.get(field, field)
        return field in BOUNDS and BOUNDS[field].take_json(json.loads(text or "{")) is ...
    except ValueError:
        return True


def _share(values: Sequence[Hostile], number: int) -> Sequence[Hostile]:
    """Take every third value, in turns: the fields of one kind share one check."""
    return values[number % 3 :: 3]


def _judge(judge: Judge, where: str, hostile: Hostile, answer: httpx.Response, *, word: str) -> None:
    if answer.status_code >= 500:
        judge.note(where, hostile, f"{answer.status_code}: {answer.text[:200]}")
    elif answer.status_code == 422 and word not in answer.text and not _is_about_something_else(answer):
        judge.note(where, hostile, f"the field is not named: {answer.text[:200]}")
    elif not answer.is_success and not answer.is_redirect and answer.status_code not in HTTP_REFUSED:
        judge.note(where, hostile, f"{answer.status_code}: {answer.text[:200]}")


def _is_about_something_else(answer: httpx.Response) -> bool:
    """Tell whether the field was taken, and its request or one of its items refused for another reason."""
    return (
        "is not an exclusion" in answer.text
        or "nothing to set" in answer.text
        or "no contract has this name" in answer.text
    )


async def test_every_field_of_every_form_refuses_or_accepts(sqlite_url: str) -> None:
    judge = Judge()
    async with make_app(sqlite_url) as app, browser_of(app) as client:
        await app.seed()
        token = form_token((await client.get("/manifests/kept/set", headers=BROWSER)).text)
        for path, names in FORMS.items():
            for number, field in enumerate(names):
                for hostile in _share(HOSTILE, number):
                    text = as_text(hostile.value)
                    if text is None or not is_storable(text):
                        continue  # no form can send it
                    answer = await client.post(path, data={"form_token": token, field: text}, headers=BROWSER)
                    _judge(judge, f"{path} {field}", hostile, answer, word=field)
        await _look(client, judge)
        judge.close()
        await still_works(app)


async def test_every_query_refuses_or_accepts(sqlite_url: str) -> None:
    judge = Judge()
    async with make_app(sqlite_url) as app, client_of(app) as client:
        description = (await client.get("/api/v1/openapi.json")).json()
        for path, methods in description["paths"].items():
            for parameter in methods.get("get", {}).get("parameters", ()):
                for hostile in (each for each in HOSTILE if each.kind in {"text", "number"}):
                    text = as_text(hostile.value)
                    if text is None or len(text) > 1_000:
                        continue
                    written = quote(text.encode("utf-8", "surrogatepass"), safe="")
                    url = _filled(path)
                    if parameter["in"] == "query":
                        url = f"{url}?{parameter['name']}={written}"
                    elif parameter["in"] == "path":
                        url = path.replace("{" + parameter["name"] + "}", written)
                    answer = await client.get(url)
                    if answer.status_code >= 500:
                        judge.note(url[:80], hostile, f"{answer.status_code}: {answer.text[:200]}")
    judge.close()


async def _look(client: httpx.AsyncClient, judge: Judge) -> None:
    for page in (*PAGES, "/api/v1/queue", "/api/v1/manifests", "/api/v1/manifests/kept", "/api/v1/groups"):
        answer = await client.get(page)
        if answer.status_code != 200:
            judge.note(page, "afterwards", f"{answer.status_code}: {answer.text[:200]}")
