"""The JSON of the REST interface: made from what the desk answers, so that the two cannot differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, StringConstraints, create_model

from gandy.desk.audit import Listed

T = TypeVar("T")

HIGHEST_ID: Final = 2**63 - 1
LARGEST_PAGE: Final = 500

#: Durations go out in seconds, as on the command line.
Seconds: TypeAlias = Annotated[timedelta, PlainSerializer(timedelta.total_seconds, return_type=float)]
#: Text that a database can hold.
Word: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Text: TypeAlias = Annotated[str, StringConstraints(max_length=4_000, pattern=r"^[^\x00]*$")]
Id: TypeAlias = Annotated[int, Field(ge=1, le=HIGHEST_ID)]
Json: TypeAlias = Any  # whatever an application's types look like as JSON

_NAMES: Final = {  # what the desk imports for type checkers only
    "Mapping": Mapping,
    "Sequence": Sequence,
    "date": date,
    "datetime": datetime,
    "timedelta": timedelta,
}


class Paged(BaseModel):
    """Which page of a listing; what is not known is refused."""

    model_config = ConfigDict(extra="forbid")

    before: Id | None = Field(None, description="Only what is older than this id: `next` of the page before.")
    limit: int = Field(50, ge=1, le=LARGEST_PAGE, description="At most so many.")


class Body(BaseModel):
    """A request body; what is not known is refused."""

    model_config = ConfigDict(extra="forbid")


class Page(BaseModel, Generic[T]):
    """One page of a listing."""

    items: list[T]
    next: int | str | None = Field(None, description="Where the next page begins; null: this is the last.")
    is_cut: bool = Field(
        False, description="The search stopped before the page was full; `next` goes on with it."
    )


@cache
def shape_of(kind: type) -> type[BaseModel]:
    """Make the model of a dataclass."""
    hints = get_type_hints(kind, localns=_NAMES)
    columns: dict[str, Any] = {each.name: (_shaped(hints[each.name]), ...) for each in fields(kind)}
    return create_model(
        kind.__name__,
        __config__=ConfigDict(from_attributes=True),
        __doc__=(kind.__doc__ or "").strip() or None,
        **columns,
    )


@cache
def page_of(kind: type) -> type[BaseModel]:
    """Make the model of a page of dataclasses."""
    shape: Any = shape_of(kind)
    return Page[shape]


def page(items: Sequence[Any], limit: int, *, key: str = "id") -> dict[str, object]:
    """Give a page; a full one may have a next."""
    is_full = len(items) == limit
    return {"items": items, "next": getattr(items[-1], key) if is_full else None}


def found_page(found: Listed[Any]) -> dict[str, object]:
    """Give a page of what a search found."""
    return {"items": found, "next": found.next, "is_cut": found.is_cut}


def _shaped(hint: Any) -> Any:  # noqa: ANN401 an annotation may be anything
    if hint is timedelta:
        return Seconds
    if isinstance(hint, type) and is_dataclass(hint):
        return shape_of(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is None:
        return hint
    shaped = tuple(each if each is Ellipsis else _shaped(each) for each in inner)
    if origin in {Union, UnionType}:
        return Union[shaped]  # noqa: UP007 the members are known at run time only
    return hint if shaped == inner else origin[shaped]
