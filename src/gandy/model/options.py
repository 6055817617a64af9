"""Options of a manifest: one description of each, for every interface and for its stored form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gandy.model import exclusion as exclusion_json
from gandy.model.schedule import MisfirePolicy
from gandy.settings.bounds import BOUNDS, NO_TIMEOUT, as_span

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from gandy.model.exclusion import Exclusion
    from gandy.settings.bounds import Bound, Timeout

#: Values of any option, in the application's types or in JSON.
Value: TypeAlias = Any
Editor: TypeAlias = Literal["text", "number", "span", "switch", "choice", "json"]


@dataclass(frozen=True, slots=True)
class OptionForm:
    """How the values of an option are stored and edited."""

    to_json: Callable[[Value], Value]
    from_json: Callable[[Value], Value]
    to_row: Callable[[Value], Value]
    sql_type: str  #: of the column in PostgreSQL
    editor: Editor = "text"  #: on pages

    def restored(self, value: Value) -> Value:
        """Return the value as it is read after it was stored: a word of a policy becomes the policy."""
        return self.from_json(self.to_json(value))


def _same(value: Value) -> Value:
    return value


def _seconds(span: Timeout | None) -> float | None:
    return None if span is None else span.total_seconds()


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else as_span(seconds)


def _timeout_to_json(timeout: Timeout | None) -> float | str | None:
    """JSON has no infinity, so "no limit" is a string."""
    return NO_TIMEOUT.value if timeout is NO_TIMEOUT else _seconds(timeout)


def _timeout_from_json(stored: float | str | None) -> Timeout | None:
    return NO_TIMEOUT if isinstance(stored, str) else _span(stored)


def _exclusions_to_json(exclusions: tuple[Exclusion, ...]) -> Value:
    return json.loads(exclusion_json.to_json(exclusions))


def _exclusions_from_json(stored: Value) -> tuple[Exclusion, ...]:
    return exclusion_json.from_json(json.dumps(stored))


TEXT = OptionForm(_same, _same, _same, "text")
NUMBER = OptionForm(_same, _same, _same, "int", "number")
SWITCH = OptionForm(_same, _same, _same, "bool", "switch")
SPAN = OptionForm(_seconds, _span, _seconds, "float8", "span")
TIMEOUT = OptionForm(_timeout_to_json, _timeout_from_json, _seconds, "float8", "span")
EXCLUSIONS = OptionForm(_exclusions_to_json, _exclusions_from_json, exclusion_json.to_json, "json", "json")
POLICY = OptionForm(_same, MisfirePolicy, lambda policy: policy.value, "text", "choice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option; its default is that of the field in the declaration."""

    keyword: str  #: in Python, REST and forms, and with dashes on the command line
    field: str = ""  #: of the declaration, and the key in stored JSON; by default the keyword
    form: OptionForm
    label: str  #: on pages
    about: str  #: for the help of commands, for REST and for pages
    column: str | None = None  #: None: the column needs more than the value
    section: Literal["when", "how"] = "how"  #: of the form
    takes_none: bool = True  #: whether None stands for the default
    is_overridable: bool = True  #: False: it has commands of its own
    setting: tuple[str, str] | None = None  #: the section and name of the setting that is its default

    def __post_init__(self) -> None:
        if not self.field:
            object.__setattr__(self, "field", self.keyword)

    @property
    def bound(self) -> Bound | None:
        """The allowed values; None: the type checks itself."""
        return BOUNDS.get(self.keyword)
