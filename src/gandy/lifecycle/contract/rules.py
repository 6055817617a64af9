"""The rules a contract is made of: which rows are dead, in which words they are safe to lose."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

Scalar = str | int | float | bool


class Unit(StrEnum):
    """How a column writes an instant."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"
    DAY_NUMBER = "yyyymmdd"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns of another table that refer to rows of this one."""

    table: str
    columns: tuple[str, ...]
    schema: str | None = None

    def __str__(self) -> str:
        table = self.table if self.schema is None else f"{self.schema}.{self.table}"
        return f"{table}.{','.join(self.columns)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a person reads about a rule: why it is safe, and what is lost on purpose."""

    safety: str = ""
    lost_by_design: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expires:
    """Rows whose expiry, plus a grace, has passed; NULL never expires."""

    column: str
    unit: Unit | None = None
    grace: timedelta = timedelta(0)
    wait_for: tuple[Reference, ...] = ()
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderThan:
    """Rows whose timestamp is older than keep_for."""

    column: str
    keep_for: timedelta
    unit: Unit | None = None
    wait_for: tuple[Reference, ...] = ()
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Rows in a final state, aged from the column that says when they reached it."""

    column: str
    keep_for: tuple[tuple[Scalar, timedelta], ...]  # per state
    at: str
    unit: Unit | None = None
    wait_for: tuple[Reference, ...] = ()
    words: Words = Words()

    @property
    def states(self) -> tuple[Scalar, ...]:
        """The states whose rows may go."""
        return tuple(state for state, _ in self.keep_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """Rows beyond the newest N of each key; said as a cap, or as keep_last."""

    rows: int
    order_by: str
    per: tuple[str, ...] = ()
    kind: str = "cap"
    wait_for: tuple[Reference, ...] = ()
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleCursor:
    """Cursors that stopped advancing, once the log holds nothing older than their progress."""

    column: str
    keep_for: timedelta
    log: str
    log_at: str
    unit: Unit | None = None
    wait_for: tuple[Reference, ...] = ()
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Singleton:
    """Nothing goes: the key itself bounds the table."""

    column: str
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """Nothing goes: the application deletes; overdue rows show that its path died."""

    path: str
    column: str | None = None
    states: tuple[Scalar, ...] = ()
    at: str | None = None
    alarm_after: timedelta | None = None
    unit: Unit | None = None
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Rows that no rule of the table may take."""

    column: str
    equals: Scalar
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartition:
    """Whole partitions whose newest possible row is older than keep_for."""

    column: str
    keep_for: timedelta
    unit: Unit | None = None
    words: Words = Words()


RowRule = Expires | OlderThan | Terminal | Cap | StaleCursor
Rule = RowRule | Singleton | Inline | Keep | DropPartition
