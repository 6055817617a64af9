"""How a step becomes parameters on PostgreSQL: the rows of a batch as one array literal per column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from psycopg.types.string import TextLoader

from gandy.store.statements import Batch, Statement, Step

if TYPE_CHECKING:
    from psycopg.abc import AdaptContext

Parameters: TypeAlias = Mapping[str, object]


def bind(step: Step) -> Parameters:
    """Say what a step binds."""
    match step:
        case Statement(parameters=parameters):
            return parameters
        case Batch(rows=rows, shared=shared):
            return {**shared, **{name: array_literal([row[name] for row in rows]) for name in rows[0]}}


def array_literal(values: Sequence[object]) -> str:
    """Write an array as PostgreSQL reads it; the driver's own way takes ten times as long for texts."""
    if values.count(None) == len(values):
        return "{" + ",".join(["NULL"] * len(values)) + "}"
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, datetime):
        return f'"{value.isoformat()}"'
    return str(value)  # numbers and booleans, as PostgreSQL writes them too


def keep_json_as_text(context: AdaptContext) -> None:
    """Hand JSON out as stored: it is validated once, by the train's own type."""
    context.adapters.register_loader("json", TextLoader)
