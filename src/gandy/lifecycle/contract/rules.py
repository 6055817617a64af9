"""The rules of a contract: which rows are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gandy.lifecycle.contract.fields import Scalar, Unit
    from gandy.lifecycle.contract.names import Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Documentation of a rule: why it is safe, and which loss is intended."""

    safety: str = ""
    lost_by_design: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expires:
    """Rows whose expiry, plus a grace period, has passed; NULL never expires."""

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
    """Rows in a final state; their age counts from the instant in column `at`."""

    column: str
    keep_for: tuple[tuple[Scalar, timedelta], ...]  # per state
    at: str
    unit: Unit | None = None
    wait_for: tuple[Reference, ...] = ()
    words: Words = Words()

    @property
    def states(self) -> tuple[Scalar, ...]:
        """The states whose rows may be deleted."""
        return tuple(state for state, _ in self.keep_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """Rows beyond the newest N of each key; declared as `cap` or as `keep_last`."""

    rows: int
    order_by: str
    per: tuple[str, ...] = ()
    kind: str = "cap"
    wait_for: tuple[Reference, ...] = ()
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleCursor:
    """Cursors that stopped advancing, once the log contains nothing older than their progress."""

    column: str
    keep_for: timedelta
    log: str
    log_at: str
    unit: Unit | None = None
    wait_for: tuple[Reference, ...] = ()
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Singleton:
    """Deletes nothing: the key itself bounds the table."""

    column: str
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """Deletes nothing: the application does; overdue rows show that it stopped doing so."""

    path: str
    column: str | None = None
    states: tuple[Scalar, ...] = ()
    at: str | None = None
    alarm_after: timedelta | None = None
    unit: Unit | None = None
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Rows that no rule of the table may delete."""

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
