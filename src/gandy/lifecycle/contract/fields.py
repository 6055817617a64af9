"""Read and check the fields of a rule, a table or a contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from math import isfinite
from typing import TypeGuard, TypeVar

from gandy.errors import ContractInvalidError, ContractProblem, DurationFormatError
from gandy.lifecycle.contract.names import Reference, split_reference
from gandy.settings.values import parse_duration

Scalar = str | int | float | bool


class Unit(StrEnum):
    """How a column stores an instant."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"
    DAY_NUMBER = "yyyymmdd"
    TIMESTAMP = "timestamp"


E = TypeVar("E", bound=StrEnum)

Span = timedelta | str
# A longer span may put the cutoff before the first instant that Python and SQLite can represent.
LONGEST = timedelta(days=36_500)
MOST = 2**31 - 1  # the largest count, a 32-bit integer
LARGEST = 2**63 - 1  # the largest 64-bit integer


def _is_text(value: object) -> TypeGuard[str]:
    """Whether it is a text that every database accepts: a lone surrogate is not a character."""
    return isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)


class Fields:
    """Reads the fields of one rule, table or contract, and collects their problems."""

    __slots__ = ("_rule", "problems")

    def __init__(self, rule: str = "") -> None:
        self._rule = rule
        self.problems: list[ContractProblem] = []

    def note(self, field: str, message: str) -> None:
        """Record a problem of a field."""
        self.problems.append(ContractProblem(message=message, rule=self._rule, field=field))

    def raise_if_wrong(self) -> None:
        """Raise one error with all recorded problems, if there are any."""
        if self.problems:
            raise ContractInvalidError(self.problems)

    def name(self, field: str, value: object) -> str:
        """Read the name of a table or column."""
        if _is_text(value) and value.strip():
            return value
        self.note(field, f"needs a name, not {value!r}")
        return ""

    def optional_name(self, field: str, value: object) -> str | None:
        """Read a name that may be left out."""
        return None if value is None else self.name(field, value)

    def names(self, field: str, value: object) -> tuple[str, ...]:
        """Read a list of names."""
        if isinstance(value, Sequence) and not isinstance(value, str):
            return tuple(self.name(field, item) for item in value)
        self.note(field, f"needs a list of names, not {value!r}")
        return ()

    def text(self, field: str, value: object) -> str:
        """Read a text for human readers."""
        if isinstance(value, str):
            return value
        self.note(field, f"needs a text, not {value!r}")
        return ""

    def span(self, field: str, value: object) -> timedelta:
        """Read a duration above zero."""
        span = self.span_or_zero(field, value)
        if span is not None and not span:
            self.note(field, "must be more than zero")
        return span or timedelta(0)

    def span_or_zero(self, field: str, value: object) -> timedelta | None:
        """Read a duration; None if it is invalid."""
        span = value if isinstance(value, timedelta) else self._parsed(field, value)
        if span is not None and not timedelta(0) <= span <= LONGEST:
            given = str(value) if isinstance(value, timedelta) else repr(value)
            self.note(field, f"must be between 0 and {LONGEST.days}d (100 years), not {given}")
            return None
        return span

    def _parsed(self, field: str, value: object) -> timedelta | None:
        if not isinstance(value, str):
            self.note(field, f'needs a duration such as "7d" or "1h30m", not {value!r}')
            return None
        try:
            return parse_duration(value)
        except DurationFormatError as error:
            self.note(field, str(error))
            return None

    def count(self, field: str, value: object, *, most: int = MOST) -> int:
        """Read a whole number above zero that every database can count to."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most:
            return value
        is_large = isinstance(value, int) and value > most
        needed = f"must be between 1 and {most}" if is_large else "needs a whole number above zero"
        self.note(field, f"{needed}, not {value!r}")
        return 1

    def unit(self, value: object) -> Unit | None:
        """Read the unit of a column's instants."""
        return None if value is None else self.choice("unit", value, Unit)

    def choice(self, field: str, value: object, choices: type[E]) -> E:
        """Read one word of a fixed list."""
        try:
            return choices(str(value))
        except ValueError:
            self.note(field, f"must be one of {', '.join(choices)}, not {value!r}")
            return next(iter(choices))

    def scalar(self, field: str, value: object) -> Scalar:
        """Read a value that a column can be compared with."""
        if isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
            self.note(field, f"must be between {-LARGEST - 1} and {LARGEST} (64 bits), not {value}")
            return ""
        if isinstance(value, float) and not isfinite(value):
            self.note(field, f"needs a number that a column can be compared with, not {value}")
            return ""
        if isinstance(value, int | float | bool) or _is_text(value):
            return value
        self.note(field, f"needs a text, a number or a boolean, not {value!r}")
        return ""

    def states(self, value: object) -> tuple[Scalar, ...]:
        """Read a list of states, each once."""
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            self.note("states", f"needs a list of at least one state, not {value!r}")
            return ()
        states = tuple(self.scalar("states", item) for item in value)
        if len(set(states)) < len(states):
            self.note("states", f"names a state twice: {list(states)}")
        return states

    def references(self, field: str, value: object) -> tuple[Reference, ...]:
        """Read a list of columns that refer to this table."""
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.note(field, f'needs a list such as ["notes.inbox_id"], not {value!r}')
            return ()
        return tuple(reference for item in value if (reference := self.reference(field, item)) is not None)

    def reference(self, field: str, value: object) -> Reference | None:
        """Read one `table.column`, `schema.table.column` or `table.first,second`."""
        parts = split_reference(value) if isinstance(value, str) else None
        if parts is None:
            self.note(field, f"needs table.column, not {value!r}")
            return None
        schema, table, columns = parts
        return Reference(table, columns, schema)

    def per_state(self, states: tuple[Scalar, ...], value: object) -> tuple[tuple[Scalar, timedelta], ...]:
        """Read one keep_for for all states, or one for each."""
        if not isinstance(value, Mapping):
            span = self.span("keep_for", value)
            return tuple((state, span) for state in states)
        for state in [*value.keys() - set(states), *set(states) - value.keys()]:
            self.note("keep_for", f"and states must name the same states; {state!r} is in one only")
        return tuple((state, self.span("keep_for", value[state])) for state in states if state in value)
