"""The filters that runs, entries and letters have in common, as a query, a body and a form."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gandy.settings.bounds import BOUNDS, RefusedValueError
from gandy.web.bodies import MOST_AT_ONCE, Body, Id, LookedAtAnswer, Paged, Taken, Word
from gandy.web.surroundings import PageQuery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from gandy.desk.choosing.walks import Preview

_COMMON: Final = ("train", "manifest", "group", "since", "until", "error_has", "input_has")
_ERROR = "A text in the error, in any case."
_INPUT = "A text in the input as it is shown: as JSON, with masks in place of secrets; in any case."
_BEFORE = "Only below this id: `next` of an answer whose search in texts did not look at all rows."
_SINCE = "Only from this instant on; a number is seconds before now."
_UNTIL = "Only before this instant; a number is seconds before now."


class Chosen(BaseModel):
    """The filters that runs, entries and letters have in common."""

    train: Word | None = None
    manifest: Word | None = None
    group: Word | None = None
    error_has: Annotated[str, Taken("error_has")] | None = Field(None, description=_ERROR)
    input_has: Annotated[str, Taken("input_has")] | None = Field(None, description=_INPUT)

    def common(self) -> dict[str, Any]:
        """Return them for the desk."""
        return {name: getattr(self, name) for name in _COMMON}


class ChosenQuery(Paged, Chosen):
    """The query of a listing."""

    since: Annotated[datetime | timedelta, Taken("moment")] | None = Field(None, description=_SINCE)
    until: Annotated[datetime | timedelta, Taken("moment")] | None = Field(None, description=_UNTIL)


class ChosenBody(Body, Chosen):
    """The body of a bulk change."""

    ids: list[Id] | None = Field(None, min_length=1, max_length=MOST_AT_ONCE)
    group: Annotated[str, Taken("group")] | None = None
    since: Annotated[datetime | timedelta, Taken("moment")] | None = Field(None, description=_SINCE)
    until: Annotated[datetime | timedelta, Taken("moment")] | None = Field(None, description=_UNTIL)
    before: Id | None = Field(None, description=_BEFORE)
    preview: bool = Field(False, description="Change nothing; return what a filter would change.")

    def common(self) -> dict[str, Any]:
        """Return the filters for the desk."""
        return {**super().common(), "before": self.before}

    @model_validator(mode="after")
    def _preview_takes_a_filter(self) -> Self:
        if self.preview and self.ids is not None:
            raise PydanticCustomError("out_of_bounds", "a preview takes a filter, not ids")
        return self


def _moment(text: str) -> str:
    """Refuse a text that is neither an instant nor a period."""
    try:
        BOUNDS["moment"].take_json(text)
    except RefusedValueError as error:
        raise PydanticCustomError("out_of_bounds", "{problem}", {"problem": str(error)}) from None
    return text


Typed = Annotated[str, Field(max_length=100), AfterValidator(_moment)]


class ChosenPageQuery(PageQuery, Chosen):
    """The query of a page; times stay as they were typed, so that links repeat them."""

    beside_filters: ClassVar[frozenset[str]] = frozenset({"before", "sort"})

    since: Typed | None = None
    until: Typed | None = None
    sort: str | None = None

    def common(self) -> dict[str, Any]:
        """Return the filters for the desk."""
        found = {name: getattr(self, name) for name in _COMMON}
        for name in ("since", "until"):
            if found[name] is not None:
                found[name] = BOUNDS["moment"].take_json(found[name])
        return found

    @property
    def is_filtered(self) -> bool:
        """Whether there is a filter."""
        return bool(self.model_dump(exclude_none=True, exclude=set(self.beside_filters)))

    def fields(self) -> dict[str, str]:
        """Return the filters as hidden fields of a form."""
        return {
            name: str(value)
            for name, value in self.model_dump(
                mode="json", exclude_none=True, exclude=set(self.beside_filters)
            ).items()
        }


class BulkForm(ChosenPageQuery):
    """What a page asks to change: the selected rows, or all that match its filters."""

    scope: Literal["selected", "all"] = "selected"
    stopped: Id | None = None  #: where the search in texts stopped whose matches are confirmed
    ids: list[Id] = Field([], max_length=MOST_AT_ONCE)

    @field_validator("ids", mode="before")
    @classmethod
    def _several_in_one_field(cls, given: object) -> object:
        """Split ids that are joined by commas: a form has at most 1,000 fields."""
        if not isinstance(given, list):
            return given
        return [part for each in given for part in (each.split(",") if isinstance(each, str) else [each])]

    def common(self) -> dict[str, Any]:
        """Return the filters for the desk, within the ids that were confirmed."""
        return {**super().common(), "before": self.before, "down_to": self.stopped}

    def fields(self) -> dict[str, str]:
        """Return the filters and the scope as hidden fields, without ids."""
        chosen = self.model_dump(mode="json", exclude_none=True, exclude={"before", "sort", "ids", "stopped"})
        return {name: str(value) for name, value in chosen.items()}

    def confirmed(self, found: Preview) -> dict[str, str]:
        """Return the hidden fields of the confirmation: the ids found, or the filters and a bound."""
        stopped = {} if found.next is None else {"stopped": str(found.next)}
        if found.is_named:
            return {**self.selected(found.ids), **stopped}
        bounds = {"since": found.since, "until": found.until}
        moments = {name: at.isoformat() for name, at in bounds.items() if at is not None}
        return {**self.fields(), **moments, "before": str(found.before), **stopped}

    def selected(self, ids: Sequence[int]) -> dict[str, str]:
        """Return the hidden fields of a confirmation of these ids."""
        return {"verb": self.fields()["verb"], "scope": "selected", "ids": ",".join(map(str, ids))}

    def further(self, found: Preview) -> dict[str, str] | None:
        """Return the hidden fields of a search of the rows that a preview did not look at."""
        return None if found.next is None else {**self.fields(), "before": str(found.next)}

    def said(self, done: str) -> str:
        """Return what is said of a change, with where its search stopped."""
        if self.stopped is None:
            return done
        return f"{done} Texts below the id {self.stopped} were not searched."

    @property
    def chosen_ids(self) -> list[int]:
        """Return the ids, if the selected rows are meant."""
        return self.ids if self.scope == "selected" else []


class PreviewPartAnswer(BaseModel):
    """The jobs of one train in one state."""

    train: str
    state: str
    jobs: int


class PreviewAnswer(LookedAtAnswer):
    """What a bulk change would touch; nothing was changed."""

    preview: Literal[True] = True
    jobs: int
    is_at_least: bool = Field(description="There are more than were counted.")
    parts: list[PreviewPartAnswer]
    ids: list[int] = Field(description="The first 1,000 of them.")

    @classmethod
    def of(cls, found: Preview) -> PreviewAnswer:
        """Convert the preview of the desk."""
        return cls.model_validate(found, from_attributes=True)


def sorts(query: ChosenPageQuery, path: str, served: Mapping[str, bool]) -> dict[str, str | None]:
    """Return the address of the listing in the order of each column; None where no index serves it."""
    return {name: query.address(path, sort=name) if is_served else None for name, is_served in served.items()}
