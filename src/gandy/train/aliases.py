"""By which names the fields of a type are read, found in pydantic's own schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

import pydantic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import TypeAdapter

Schema: TypeAlias = Any  # a core schema: nested dictionaries whose kinds are too many to name

_OF_FIELDS: Final = frozenset({"model-fields", "typed-dict", "dataclass-args", "arguments"})
#: Before version 2.11 pydantic reads a field by the names that its class says, and no caller chooses.
_CAN_CHOOSE: Final = tuple(int(part) for part in pydantic.VERSION.split(".")[:2]) >= (2, 11)


class Reading(TypedDict, total=False):
    """Options of pydantic's validators."""

    by_alias: bool
    by_name: bool


@dataclass(frozen=True, slots=True)
class Aliases:
    """What a type says about the names of its fields."""

    has_any: bool
    crossed: tuple[str, ...]  #: aliases that are the names of other fields
    has_nested_json: bool  #: a part is written as a text that holds JSON

    @property
    def reading(self) -> Reading:
        """How values are read: by aliases, as people send them, and by names, as values are written."""
        return {"by_alias": True, "by_name": True} if self.has_any and _CAN_CHOOSE else {}


def aliases_of(adapter: TypeAdapter[Any]) -> Aliases:
    """Look at every field inside a type."""
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
    """Name the fields of a model, a dataclass, a typed dictionary or a call."""
    fields = schema["arguments_schema"] if schema["type"] == "arguments" else schema["fields"]
    if isinstance(fields, dict):
        yield from fields.items()
    else:
        yield from ((each["name"], each) for each in fields)


def paths_of(field: Schema) -> Iterator[list[object]]:
    """Give every alias of a field as the keys that lead to it."""
    for alias in (field.get("validation_alias"), field.get("serialization_alias"), field.get("alias")):
        if isinstance(alias, list):
            yield from alias if all(isinstance(each, list) for each in alias) else [alias]
        elif alias is not None:
            yield [alias]


def first_keys(field: Schema) -> Iterator[str]:
    """Name the keys beside those of other fields that a field is read from."""
    reading = {key: field[key] for key in ("validation_alias", "alias") if key in field}
    yield from (str(path[0]) for path in paths_of(reading) if path)


def _schemas(schema: object) -> Iterator[Schema]:
    """Walk a schema and all that are inside it."""
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema
        for key, inner in schema.items():
            if key != "metadata":
                yield from _schemas(inner)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from _schemas(inner)
