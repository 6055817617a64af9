"""How to call any route with given ids: the path, the query and the body come from the route itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

import httpx
from fastapi.params import Form
from pydantic import BaseModel

from gandy.web.access.gate import Access
from gandy.web.access.routes import GuardedRoute
from gandy.web.application import routes
from tests.doors.neighbours import TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gandy import Gandy

#: The doors themselves and the probes: they take no id and show nothing of an owner.
WITHOUT_OWNER = {"/login", "/logout", "/healthz", "/readyz", "/metrics", "/api/v1/openapi.json"}
GUARDED = [
    route
    for route in routes()
    if isinstance(route, GuardedRoute)
    and route.access not in {Access.LOGIN, Access.PROBE}
    and route.path not in WITHOUT_OWNER
]

#: What to send, by the name of the field; a required field that is not here is a mistake of this module.
FIELDS: Mapping[str, object] = {
    "note": "seen",
    "reason": "because",
    "priority": 5,
    "max_active_jobs": 2,
    "input": 1,
    "input_json": "1",
    "delay": 60,
    "delay_minutes": "1",
    "is_edited": "true",
    "is_confirmed": "true",
}
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


@dataclass(frozen=True)
class Call:
    """One request."""

    method: str
    path: str
    route: str
    body: Mapping[str, object] = field(default_factory=dict)
    is_form: bool = False

    async def send(self, client: httpx.AsyncClient) -> httpx.Response:
        if self.method != "POST":
            return await client.request(self.method, self.path)
        if self.is_form:
            return await client.post(self.path, data=dict(self.body))
        return await client.post(self.path, json=dict(self.body))


def parameters(route: GuardedRoute) -> list[str]:
    """Name what a path asks for."""
    return _PARAMETER.findall(route.path)


def calls(route: GuardedRoute, known: Mapping[str, Sequence[object]]) -> Iterator[Call]:
    """Fill a path in every way; a parameter that is not known is a mistake of the test."""
    body, is_form = body_of(route)
    (method,) = route.methods or set()
    for values in product(*(known[name] for name in parameters(route))):
        path = route.path
        for value in values:
            path = _PARAMETER.sub(str(value), path, count=1)
        yield Call(method, path, route.path, body, is_form)


def body_of(route: GuardedRoute) -> tuple[Mapping[str, object], bool]:
    """Fill the body; what is required and has no sample raises."""
    found: dict[str, object] = {}
    is_form = False
    for parameter in route.dependant.body_params:
        is_form = is_form or isinstance(parameter.field_info, Form)
        model = _model(parameter.field_info.annotation)
        fields = model.model_fields if model else {parameter.alias: parameter.field_info}
        for name, info in fields.items():
            if name in FIELDS:
                found[name] = FIELDS[name]
            elif info.is_required():
                raise KeyError(f"{route.path} needs {name}")
    return found, is_form


def client_of(app: Gandy) -> httpx.AsyncClient:
    """Call the open application as its operator."""
    asgi: Any = app.asgi()
    transport = httpx.ASGITransport(asgi, client=("127.0.0.1", 50_000))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8423", headers=headers)


def _model(kind: object) -> type[BaseModel] | None:
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
    return None
