"""How a step becomes a query and its parameters on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from psycopg.types.string import TextLoader

from gandy.store.statements import Batch, Statement, Step

if TYPE_CHECKING:
    from psycopg.abc import AdaptContext

Parameters: TypeAlias = Mapping[str, object]


def bind(step: Step) -> Parameters:
    """Say what a step binds; a batch turns its rows into one array per column."""
    match step:
        case Statement(parameters=parameters):
            return parameters
        case Batch(rows=rows, shared=shared):
            return {**shared, **{name: [row[name] for row in rows] for name in rows[0]}}


def keep_json_as_text(place: AdaptContext) -> None:
    """Hand JSON out as stored: it is validated once, by the train's own type."""
    place.adapters.register_loader("json", TextLoader)
