"""Request and response bodies of the REST interface, and idempotent requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
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

from fastapi import Depends, Header, Request
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, StringConstraints, create_model
from pydantic_core import PydanticCustomError, core_schema

from gandy.desk.audit import AlreadyHandled, IdempotentDatabase, Listed
from gandy.desk.choosing.names import sentence_of
from gandy.desk.declarations import Place
from gandy.desk.schedules import (
    OVERRIDABLE,
    ManifestChanges,
    NewManifest,
    new_schedule,
    replaced_schedule,
)
from gandy.model import exclusion as exclusion_json
from gandy.model.exclusion import MOST_EXCLUSIONS
from gandy.model.manifest import MANIFEST_OPTIONS
from gandy.model.options import Option
from gandy.model.schedule import MisfirePolicy
from gandy.settings.bounds import BOUNDS, RefusedValueError
from gandy.web.dependencies import CurrentContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

    from gandy.store.cancelling import CancelResult
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.reading.listings import SearchedRows


T = TypeVar("T")

HIGHEST_ID: Final = 2**63 - 1
LARGEST_PAGE: Final = 500
MOST_AT_ONCE: Final = 1_000

#: Durations are answered in seconds, as on the command line.
Seconds: TypeAlias = Annotated[timedelta, PlainSerializer(timedelta.total_seconds, return_type=float)]
#: Text that a database can store.
Word: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Text: TypeAlias = Annotated[str, StringConstraints(max_length=4_000, pattern=r"^[^\x00]*$")]
Id: TypeAlias = Annotated[int, Field(ge=1, le=HIGHEST_ID)]
Json: TypeAlias = Any  # an application's types as JSON

_NAMES: Final = {  # names that the desk imports only for type checkers
    "Mapping": Mapping,
    "Sequence": Sequence,
    "date": date,
    "datetime": datetime,
    "timedelta": timedelta,
}


class Paged(BaseModel):
    """The page of a listing; unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid")

    before: Id | None = Field(None, description="Only rows older than this id: `next` of the previous page.")
    limit: int = Field(50, ge=1, le=LARGEST_PAGE, description="Maximum number of rows.")


class Body(BaseModel):
    """A request body; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class LookedAnswer(BaseModel):
    """How far a search in texts looked: at the newest rows that the other filters leave."""

    model_config = ConfigDict(from_attributes=True)

    rows: int
    back_to: datetime | None = Field(description="The time of the oldest of them.")

    @classmethod
    def of(cls, looked: SearchedRows | None) -> LookedAnswer | None:
        """Convert the answer of the desk."""
        return None if looked is None else cls.model_validate(looked)


class LookedAtAnswer(BaseModel):
    """An answer about what a filter selects."""

    looked: LookedAnswer | None = Field(
        None, description="How far a search in texts looked; null: no text was searched for."
    )
    next: int | None = Field(
        None, description="The search stopped here, and `before` continues it; null: it looked at all rows."
    )


class Page(BaseModel, Generic[T]):
    """One page of a listing."""

    items: list[T]
    next: int | str | None = Field(None, description="The key of the next page; null: this is the last.")
    is_cut: bool = Field(
        False, description="The search stopped before the page was full; `next` continues it."
    )
    looked: LookedAnswer | None = Field(
        None, description="How far a search in texts looked; null: no text was searched for."
    )
    unknown: str | None = Field(
        None, description="Nothing was found, since nothing has a name of the filter: with similar names."
    )


@cache
def shape_of(kind: type) -> type[BaseModel]:
    """Return the model of a dataclass."""
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
    """Return the model of a page of dataclasses."""
    shape: Any = shape_of(kind)
    return Page[shape]


def page(items: Sequence[Any], limit: int, *, key: str = "id") -> dict[str, object]:
    """Return a page; a full page may have a next."""
    is_full = len(items) == limit
    return {"items": items, "next": getattr(items[-1], key) if is_full else None}


def found_page(found: Listed[Any]) -> dict[str, object]:
    """Return a page of search results."""
    unknown = None if found.unknown is None else sentence_of(found.unknown)
    return {
        "items": found,
        "next": found.next,
        "is_cut": found.is_cut,
        "looked": found.looked,
        "unknown": unknown,
    }


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


@dataclass(frozen=True, slots=True)
class Taken:
    """A field checked by the table of bounds: `Annotated[timedelta, Taken("delay")]`.

    A duration is a number of seconds, or text as on the command line: 90, 90s, 1h30m.
    """

    option: str
    is_typed: bool = False  #: typed into a form: read as on the command line

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Validate by the table of bounds instead of the declared type."""
        return core_schema.no_info_plain_validator_function(self._take)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of the table of bounds."""
        return dict(BOUNDS[self.option].schema)

    def _take(self, value: object) -> object:
        bound = BOUNDS[self.option]
        try:
            if self.is_typed and isinstance(value, str):
                return bound.take_text(value)
            return bound.take_json(value)
        except RefusedValueError as error:
            raise PydanticCustomError("out_of_bounds", "{problem}", {"problem": str(error)}) from None


def with_options(
    name: str,
    base: type[BaseModel],
    *,
    json_type: object,
    is_typed: bool = False,
    among: Sequence[Option] = OVERRIDABLE,
) -> type[BaseModel]:
    """Return the model with a field for every option of a manifest, or those that can be overridden."""
    fields: dict[str, Any] = {}
    for option in among:
        kinds: dict[str, Any] = {"choice": MisfirePolicy, "json": json_type}
        taken = Annotated[Any, Taken(option.keyword, is_typed=is_typed)]
        kind = kinds.get(option.form.editor, taken)
        fields[option.keyword] = (kind | None, Field(None, description=option.about))
    return create_model(name, __base__=base, __doc__=base.__doc__, **fields)


def given_options(given: BaseModel, *, among: Sequence[Option] = OVERRIDABLE) -> dict[str, Any]:
    """Return the values of such a model, by keyword; exclusions are read, as JSON or as typed text."""
    values = {option.keyword: getattr(given, option.keyword) for option in among}
    found = values["exclude"]
    if found is not None:
        values["exclude"] = exclusion_json.from_json(found if isinstance(found, str) else json.dumps(found))
    return values


class InputBody(Body):
    """An input that replaces the stored one."""

    input: Json = Field(None, description="Omit it to keep the stored input; null is an input.")


class CancelAnswer(LookedAtAnswer):
    """The result of a cancellation, by job id."""

    cancelled: list[int] = Field(description="Jobs that had not started; they never will.")
    asked: list[int] = Field(description="Running jobs; their workers are told to stop them.")
    over: list[int] = Field(description="Jobs that had already ended.")
    unknown: list[int] = Field([], description="Ids of no job of this application.")

    @classmethod
    def of(cls, result: CancelResult) -> CancelAnswer:
        """Convert the result of the desk."""
        return cls(
            cancelled=list(result.cancelled),
            asked=list(result.asked),
            over=list(result.over),
            unknown=list(result.unknown),
            looked=LookedAnswer.of(result.looked),
            next=result.next,
        )


def input_text(body: InputBody | None) -> str | None:
    """Return the given input as JSON text; None if none was sent."""
    if body is None or "input" not in body.model_fields_set:
        return None
    return json.dumps(body.input, ensure_ascii=False)


class _ScheduleBody(InputBody):
    """A schedule, by one of several fields."""

    cron: Annotated[str, Taken("cron")] | None = Field(
        None, description="Five fields, six with seconds, or a word such as @daily."
    )
    timezone: Annotated[str, Taken("timezone")] | None = Field(
        None, description="The zone of `cron` or `every`, UTC by default."
    )
    every: Annotated[timedelta, Taken("every")] | None = Field(
        None, description="A fixed rate, instead of a cron."
    )


class _ChangesBody(_ScheduleBody):
    """New values of a manifest; omitted values stay unchanged."""

    next: Annotated[datetime, Taken("next_at")] | None = Field(
        None, description="The next instant, set manually: in the future, with a time zone."
    )

    def changes(self) -> ManifestChanges:
        """Convert it for the desk."""
        values = given_options(self)
        return ManifestChanges(
            schedule=replaced_schedule(self.cron, self.every, self.timezone),
            input_json=input_text(self),
            next_at=self.next,
            **{option.field: values[option.keyword] for option in OVERRIDABLE},
        )


class _AddBody(_ScheduleBody):
    """A manifest to make; omitted options are the train's, or the settings'."""

    external_id: Annotated[str, Taken("external_id")]
    train: Word
    at: Annotated[datetime, Taken("at")] | None = Field(
        None, description="One time, at this instant with a time zone."
    )
    after: Annotated[str | list[str], Taken("after")] | None = Field(
        None, description="Run it after this manifest, or after each of several, instead of by a schedule."
    )
    on: Annotated[str, Taken("on")] | None = Field(
        None, description="The end of the parents that counts, success by default."
    )
    pass_output: Annotated[bool, Taken("pass_output")] = Field(
        False, description="The output of the parent is the input."
    )
    dormant: Annotated[bool, Taken("dormant")] = Field(
        False, description="Only if a run of the parent activates it."
    )
    input: Json = Field(None, description="The train's input; it may be omitted if the train needs none.")

    def new(self) -> NewManifest:
        """Convert it for the desk."""
        values = given_options(self, among=MANIFEST_OPTIONS)
        return NewManifest(
            external_id=self.external_id,
            train=self.train,
            schedule=new_schedule(self.cron, self.every, self.timezone, at=self.at),
            place=Place(after=self.after, on=self.on, dormant=self.dormant, pass_output=self.pass_output),
            input_json=input_text(self),
            options={keyword: value for keyword, value in values.items() if value is not None},
        )


if TYPE_CHECKING:
    ChangesBody = _ChangesBody
    AddBody = _AddBody
else:
    listed = Annotated[list[Json], Field(max_length=MOST_EXCLUSIONS)]
    ChangesBody = with_options("ChangesBody", _ChangesBody, json_type=listed)
    AddBody = with_options("AddBody", _AddBody, json_type=listed, among=MANIFEST_OPTIONS)


IdempotencyKey: TypeAlias = Annotated[
    Annotated[str, Taken("idempotency_key")] | None,
    Header(
        description="Chosen by the client. A second request with the same key within a day does nothing and "
        "returns the job of the first.",
    ),
]


class JobAnswer(BaseModel):
    """The job of a request; its run has the same id."""

    id: int
    is_new: bool = Field(description="False: it already existed, for this key or for another reason.")


class Repeatable:
    """Creates at most one job per idempotency key."""

    def __init__(self, context: CurrentContext, path: str, key: str | None) -> None:
        self._database = context.database
        self._owner = context.owner
        self._key = None if key is None else f"{path} {key}"

    async def job(self, make: Callable[[ReadingRunner], Awaitable[JobAnswer]]) -> JobAnswer:
        """Create the job with the given function, or return the job of an earlier request."""
        if self._key is None:
            return await make(self._database)
        try:
            return await make(IdempotentDatabase(self._database, owner=self._owner, key=self._key))
        except AlreadyHandled as answered:
            return JobAnswer(id=answered.job_id, is_new=False)


async def _repeatable(
    request: Request, context: CurrentContext, idempotency_key: IdempotencyKey = None
) -> Repeatable:
    return Repeatable(context, request.url.path, idempotency_key)


OncePerKey: TypeAlias = Annotated[Repeatable, Depends(_repeatable)]
