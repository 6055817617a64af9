"""Page responses, queries of listings, and forms generated from a train's input type."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from urllib.parse import urlencode

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, field_validator
from starlette.responses import RedirectResponse, Response

from gandy.desk.growth import Cached, TableGrowth
from gandy.desk.lifecycle import HeldRules
from gandy.desk.tables import TableSizes
from gandy.model.layout import MASK
from gandy.web.bodies import HIGHEST_ID, Id
from gandy.web.rendering import Rendering

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gandy.train.registry import AnyTrain


PAGE_SIZE = 50


class PageContext:
    """Renders the pages of one request."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._rendering: Rendering = request.app.state.rendering
        self.held_rules: HeldRules = request.app.state.held_rules
        self.growth: Cached[tuple[TableGrowth, ...]] = request.app.state.growth
        self.sizes: Cached[TableSizes] = request.app.state.sizes

    def page(self, template: str, **context: Any) -> Response:  # noqa: ANN401 depends on the template
        """Return a page."""
        return self._rendering.page(self.request, template, context)

    def done(self, path: str, said: str) -> Response:
        """Redirect to a page and show a notice there."""
        return self._rendering.done(self.request, path, said)

    def moved(self, path: str) -> Response:
        """Redirect to the page that shows this instead."""
        return RedirectResponse(self.link(path), HTTPStatus.SEE_OTHER)

    def link(self, path: str) -> str:
        """Return the URL of a page."""
        return self._rendering.link(self.request, path)


async def _surroundings(request: Request) -> PageContext:
    return PageContext(request)


Here: TypeAlias = Annotated[PageContext, Depends(_surroundings)]


class PageQuery(BaseModel):
    """The query string of a listing; an empty field does not filter."""

    model_config = ConfigDict(extra="ignore")

    before: Id | None = Field(None, le=HIGHEST_ID)

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @property
    def is_filtered(self) -> bool:
        """Whether there is a filter."""
        return bool(self.model_dump(exclude_none=True, exclude={"before", "after"}))

    def address(self, path: str, **page: object) -> str:
        """Return the URL of another page of the same listing."""
        kept = self.model_dump(mode="json", exclude_none=True, exclude={"before", "after"})
        query = urlencode({**kept, **{key: value for key, value in page.items() if value is not None}})
        return f"{path}?{query}" if query else path


PREFIX: Final = "field:"
_KINDS: Final = {"string": "text", "integer": "number", "number": "number", "boolean": "checkbox"}
_FORMATS: Final = {"date": "date", "email": "email", "uri": "url", "password": "password"}
_MOST_FIELDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form."""

    name: str
    label: str
    kind: str
    value: object
    is_required: bool
    about: str = ""
    choices: tuple[object, ...] = ()
    step: str = "any"


def form_for(train: AnyTrain, value: object) -> tuple[FormField, ...] | None:
    """Return the fields of an input that is an object with few properties; None for any other."""
    given = value if isinstance(value, dict) else {}
    schema = _schema(train, given)
    properties: dict[str, Any] = (schema or {}).get("properties", {})
    if schema is None or schema.get("type") != "object" or not 0 < len(properties) <= _MOST_FIELDS:
        return None
    required = schema.get("required", [])
    return tuple(
        _field(name, _resolved(each, schema), given.get(name, _default(each)), is_required=name in required)
        for name, each in properties.items()
    )


def read_form(train: AnyTrain, form: Mapping[str, object]) -> str:
    """Convert a sent form to JSON text; the train's type validates it later."""
    sent_names = [name.removeprefix(PREFIX) for name in form if name.startswith(PREFIX)]
    fields = form_for(train, dict.fromkeys(sent_names)) or ()
    found: dict[str, object] = {}
    for each in fields:
        sent = form.get(f"{PREFIX}{each.name}")
        if each.kind == "checkbox":
            found[each.name] = sent is not None
        elif isinstance(sent, str) and (sent or each.is_required):
            found[each.name] = _value(each, sent)
    return json.dumps(found, ensure_ascii=False)


def _schema(train: AnyTrain, names: Collection[str]) -> dict[str, Any] | None:
    """Return the JSON schema by alias, or by field name if the given names are field names."""
    try:
        by_alias = train.input.adapter.json_schema()
        unknown = set(names).difference(by_alias.get("properties", ()))
        if not unknown:
            return by_alias
        by_name = train.input.adapter.json_schema(by_alias=False)
        return by_name if unknown.intersection(by_name.get("properties", ())) else by_alias
    except PydanticUserError:
        return None


def _resolved(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Resolve a reference, and unwrap an optional type."""
    if "$ref" in schema:
        return {**whole.get("$defs", {}).get(schema["$ref"].rsplit("/", 1)[-1], {}), **schema}
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return {**_resolved(choices[0], whole), **schema} if len(choices) == 1 else schema


def _field(name: str, schema: dict[str, Any], value: object, *, is_required: bool) -> FormField:
    kind = "password" if value == MASK else _kind(schema)
    shown = json.dumps(value, ensure_ascii=False) if kind == "json" else "" if value is None else value
    return FormField(
        name=name,
        label=name.replace("_", " "),
        kind=kind,
        value="" if kind == "password" and value != MASK else shown,
        is_required=is_required and kind != "text",
        about=schema.get("description", ""),
        choices=tuple(schema.get("enum", ())),
        step="1" if schema.get("type") == "integer" else "any",
    )


def _default(schema: dict[str, Any]) -> object:
    """Return the default; None for a secret, whose default the train fills in."""
    default = schema.get("default")
    return None if default == MASK else default


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "select"
    if schema.get("writeOnly"):
        return "password"
    kind = _KINDS.get(schema.get("type", ""), "json")
    return _FORMATS.get(schema.get("format", ""), kind) if kind == "text" else kind


def _value(field: FormField, sent: str) -> object:
    match field.kind:
        case "number":
            return _number(sent)
        case "json":
            try:
                return json.loads(sent)
            except ValueError:
                return sent
        case "select":
            return next((each for each in field.choices if str(each) == sent), sent)
        case _:
            return sent


def _number(sent: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(sent)
        except ValueError:
            continue
    return sent
