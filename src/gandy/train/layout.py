"""The layout of inputs and outputs: where a type holds secrets, and the names and aliases of its fields."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

import pydantic
from pydantic import PydanticUserError

from gandy.model.layout import OPEN_LAYOUT, SECRET_LAYOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import TypeAdapter

    from gandy.model.layout import Layout


Schema: TypeAlias = Any  # a core schema of pydantic: nested dictionaries of many kinds

_OF_FIELDS: Final = frozenset({"model-fields", "typed-dict", "dataclass-args", "arguments"})
#: Before version 2.11 of pydantic the class alone decides by which names a field is read, not the caller.
_CAN_CHOOSE: Final = tuple(int(part) for part in pydantic.VERSION.split(".")[:2]) >= (2, 11)


class Reading(TypedDict, total=False):
    """Options of pydantic's validators."""

    by_alias: bool
    by_name: bool


@dataclass(frozen=True, slots=True)
class Aliases:
    """The names and aliases of the fields of a type."""

    has_any: bool
    crossed: tuple[str, ...]  #: aliases that are the names of other fields
    has_nested_json: bool  #: a part is serialized as a string that contains JSON

    @property
    def reading(self) -> Reading:
        """The options to read values by alias, as clients send them, and by name, as stored."""
        return {"by_alias": True, "by_name": True} if self.has_any and _CAN_CHOOSE else {}


def aliases_of(adapter: TypeAdapter[Any]) -> Aliases:
    """Collect the aliases of every field inside a type."""
    has_any = has_nested_json = False
    crossed: dict[str, None] = {}
    for schema in _schemas(adapter.core_schema):
        has_nested_json = has_nested_json or (schema["type"] == "json" and "schema" in schema)
        if schema["type"] in _OF_FIELDS:
            found = {name: set(first_keys(field)) for name, field in fields_of(schema)}
            has_any = has_any or any(found.values())
            for name, keys in found.items():
                crossed |= dict.fromkeys(sorted(keys & (found.keys() - {name})))
    return Aliases(has_any, tuple(crossed), has_nested_json)


def fields_of(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the fields of a model, a dataclass, a typed dictionary or a call."""
    fields = schema["arguments_schema"] if schema["type"] == "arguments" else schema["fields"]
    if isinstance(fields, dict):
        yield from fields.items()
    else:
        yield from ((each["name"], each) for each in fields)


def paths_of(field: Schema) -> Iterator[list[object]]:
    """Yield every alias of a field as a path of keys."""
    for alias in (field.get("validation_alias"), field.get("serialization_alias"), field.get("alias")):
        if isinstance(alias, list):
            yield from alias if all(isinstance(each, list) for each in alias) else [alias]
        elif alias is not None:
            yield [alias]


def first_keys(field: Schema) -> Iterator[str]:
    """Yield the top-level keys that a field is read from."""
    reading = {key: field[key] for key in ("validation_alias", "alias") if key in field}
    yield from (str(path[0]) for path in paths_of(reading) if path)


def _schemas(schema: object) -> Iterator[Schema]:
    """Yield a schema and all schemas inside it."""
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema
        for key, inner in schema.items():
            if key != "metadata":
                yield from _schemas(inner)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from _schemas(inner)


_MOST_PLACES: Final = 2_000
_SECRET_CODE: Final = ("_serialize_secret", "Secret.", "_SecretField.")
_PLAIN: Final = frozenset(
    {
        "none",
        "bool",
        "int",
        "float",
        "decimal",
        "complex",
        "str",
        "bytes",
        "literal",
        "enum",
        "missing-sentinel",
    }
    | {"date", "time", "datetime", "timedelta", "uuid", "url", "multi-host-url"}
)
_ARRAYS: Final = frozenset({"list", "set", "frozenset", "generator"})
#: The keys under which a schema holds other schemas of the same value.
_SAME_VALUE: Final = ("schema", "lax_schema", "strict_schema", "json_schema", "arguments_schema")


def layout_of(adapter: TypeAdapter[Any]) -> Layout:
    """Find the secrets of a type: a type without secrets is open, a type that is too large is all secret."""
    reading = _Reading({})
    reading.place(adapter.core_schema)
    if not reading.has_secrets and not (reading.has_unknown and not _is_described(adapter)):
        return OPEN_LAYOUT
    return SECRET_LAYOUT if len(reading.places) > _MOST_PLACES else reading.places


class _Reading:
    """Reads one schema; each schema becomes a place, and places refer to each other by number."""

    def __init__(self, named: dict[str, Schema]) -> None:
        self.places: list[dict[str, Any]] = []
        self.has_secrets = False
        self.has_unknown = False  # some part is validated by code, so its form is unknown
        self._named = named
        self._numbers: dict[str, int] = {}

    def place(self, schema: Schema) -> int:
        """Return the number of the place that a schema describes."""
        number = len(self.places)
        self.places.append({})
        if number <= _MOST_PLACES:
            self._fill(self.places[number], schema)
        return number

    def _fill(self, place: dict[str, Any], schema: Schema) -> None:
        kind = schema["type"]
        if _is_secret(schema):
            self.has_secrets = place["secret"] = True
        elif kind == "definitions":
            self._named |= {each["ref"]: each for each in schema["definitions"]}
            self._fill(place, schema["schema"])
        elif kind == "definition-ref":
            self._add(place, "also", [self._of_name(schema["schema_ref"])])
        elif kind in _PLAIN:
            place["plain"] = True
        elif kind == "any":
            place["open"] = True
        elif kind == "json":  # a string that contains JSON: it is shown or masked as a whole
            place["plain" if self._is_free(schema.get("schema")) else "secret"] = True
        else:
            self._fill_inside(place, schema)

    def _fill_inside(self, place: dict[str, Any], schema: Schema) -> None:
        kind = schema["type"]
        if kind in {"model-fields", "typed-dict", "dataclass-args", "arguments"}:
            self._fill_fields(place, schema)
        elif kind in _ARRAYS:
            self._fill_part(place, "items", [schema.get("items_schema")])
        elif kind == "tuple":
            self._fill_part(place, "items", schema["items_schema"])
        elif kind == "dict" and not self._is_free(schema.get("keys_schema")):
            place["secret"] = True
        elif kind == "dict":
            self._fill_part(place, "values", [schema.get("values_schema")])
        else:
            same = [*_of_the_same_value(schema)]
            for each in same:
                self._fill_also(place, each, is_single=len(same) == 1)
            if _allows_more(schema):
                self._fill_part(place, "values", [None])
            if not same:
                self.has_unknown = place["secret"] = True

    def _fill_also(self, place: dict[str, Any], schema: Schema, *, is_single: bool) -> None:
        if is_single:
            self._fill(place, schema)
        else:
            self._add(place, "also", [self.place(schema)])

    def _fill_fields(self, place: dict[str, Any], schema: Schema) -> None:
        keys: dict[str, int] = place.setdefault("keys", {})
        numbers: list[int] = []
        for name, field in fields_of(schema):
            numbers.append(self.place(field["schema"]))
            for key, is_path in _names_of(name, field):
                keys[key] = self._unknown() if is_path else numbers[-1]
        if schema["type"] == "arguments" and numbers:  # a named tuple may be serialized as a list
            self._fill_numbers(place, "items", numbers)
        if _allows_more(schema):
            self._fill_part(place, "values", [schema.get("extras_schema")])

    def _fill_part(self, place: dict[str, Any], part: str, schemas: Iterable[Schema | None]) -> None:
        numbers = [self.place({"type": "any"} if each is None else each) for each in schemas]
        self._fill_numbers(place, part, numbers)

    def _fill_numbers(self, place: dict[str, Any], part: str, numbers: list[int]) -> None:
        if len(numbers) == 1:
            place[part] = numbers[0]
        elif numbers:
            place[part] = len(self.places)
            self.places.append({"also": numbers})

    def _unknown(self) -> int:
        self.places.append({"secret": True})
        return len(self.places) - 1

    def _of_name(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self.places)
            self.place(self._named[name])
        return self._numbers[name]

    def _is_free(self, schema: Schema | None) -> bool:
        """Return whether a schema holds no secret."""
        apart = _Reading(self._named)
        if schema is not None:
            apart.place(schema)
        self.has_secrets = self.has_secrets or apart.has_secrets
        return not apart.has_secrets

    def _add(self, place: dict[str, Any], part: str, numbers: list[int]) -> None:
        place[part] = [*place.get(part, ()), *numbers]


def _is_described(adapter: TypeAdapter[Any]) -> bool:
    """Return whether the type has a JSON schema, also for the parts that code validates."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about defaults that have no JSON form
            adapter.json_schema()
    except PydanticUserError:
        return False
    return True


def _is_secret(schema: Schema) -> bool:
    """Recognise pydantic's secrets by their functions, even if a serializer or JSON schema covers them."""
    serializer = schema.get("serialization", {}).get("function")
    reader = schema.get("json_schema", {}).get("function") if schema["type"] == "json-or-python" else None
    return any(_is_code_of_secrets(code) for code in (serializer, (reader or {}).get("function")))


def _is_code_of_secrets(code: object) -> bool:
    name = str(getattr(code, "__qualname__", ""))
    return getattr(code, "__module__", "") == "pydantic.types" and name.startswith(_SECRET_CODE)


def _of_the_same_value(schema: Schema) -> Iterator[Schema]:
    for part in _SAME_VALUE:
        if part in schema:
            yield schema[part]
    choices = schema.get("choices", ())
    for each in choices.values() if isinstance(choices, dict) else choices:
        yield each[0] if isinstance(each, tuple) else each
    yield from schema.get("steps", ())
    if schema["type"] == "function-plain" and "schema" in schema.get("serialization", ()):
        yield schema["serialization"]["schema"]


def _names_of(name: str, field: Schema) -> Iterator[tuple[str, bool]]:
    """Yield every key that a field is read from or written to, and whether the key only begins a path."""
    yield name, False
    for path in paths_of(field):
        if path and path[0] != name:
            yield str(path[0]), len(path) > 1


def _allows_more(schema: Schema) -> bool:
    behaviour = schema.get("extra_behavior") or schema.get("config", {}).get("extra_fields_behavior")
    return bool(behaviour == "allow")
