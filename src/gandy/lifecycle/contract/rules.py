"""The kinds of rules: a class for each, which answers what the lifecycle asks about it.

The lifecycle asks a rule and does not compare its class. Only `selection/shapes.py`, which makes conditions
of a rule, tells the kinds apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.errors import ContractProblem
from gandy.lifecycle.contract.base import Age, AgeRule, BaseRule, RowRule
from gandy.lifecycle.contract.names import Reference
from gandy.settings.values import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.lifecycle.contract.fields import Scalar, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Expires(AgeRule):
    """Rows whose expiry, plus a grace period, has passed; NULL never expires."""

    kind = "expires"

    grace: timedelta = timedelta(0)

    @property
    def ages(self) -> tuple[Age, ...]:
        """The expiry and its grace period."""
        return (Age(instant=self.column, field=self.kind, keep_for=self.grace),)

    @property
    def bound(self) -> str:
        """The expiry."""
        grace = f" plus {format_duration(self.grace)}" if self.grace else ""
        return f"{self.column} has passed{grace}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderThan(AgeRule):
    """Rows whose timestamp is older than keep_for."""

    kind = "older_than"
    is_final = True  # an age only grows

    keep_for: timedelta

    @property
    def ages(self) -> tuple[Age, ...]:
        """The timestamp."""
        return (Age(instant=self.column, field=self.kind, keep_for=self.keep_for),)

    @property
    def bound(self) -> str:
        """The age."""
        return f"{self.column} older than {format_duration(self.keep_for)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal(AgeRule):
    """Rows in a final state; their age counts from the instant in column `at`."""

    kind = "terminal"
    is_final = True  # as its state

    keep_for: tuple[tuple[Scalar, timedelta], ...]  # per state
    at: str

    @property
    def states(self) -> tuple[Scalar, ...]:
        """The states whose rows may be deleted."""
        return tuple(state for state, _ in self.keep_for)

    @property
    def label(self) -> str:
        """The column and its states."""
        return f"{self.kind} {self.column} {', '.join(map(str, self.states))}"

    @property
    def keys(self) -> tuple[str, ...]:
        """One key for each state."""
        return tuple(f"{self.kind}:{self.column}={state}:{self.at}" for state in self.states)

    @property
    def ages(self) -> tuple[Age, ...]:
        """One age for each state."""
        return tuple(
            Age(instant=self.at, field="at", keep_for=span, equals=((self.column, state),))
            for state, span in self.keep_for
        )

    @property
    def bound(self) -> str:
        """The age of each state."""
        ages = ", ".join(f"{state} {format_duration(span)}" for state, span in self.keep_for)
        return f"{self.column} final since {self.at}: {ages}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleCursor(AgeRule):
    """Cursors that stopped advancing, once the log contains nothing older than their progress."""

    kind = "stale_cursor"
    reads_other_rows = True  # the log

    keep_for: timedelta
    log: str
    log_at: str

    @property
    def reads(self) -> tuple[Reference, ...]:
        """The log too; it is in the schema of the table."""
        return (*self.wait_for, Reference(self.log, (self.log_at,)))

    @property
    def ages(self) -> tuple[Age, ...]:
        """The progress of the cursor."""
        return (Age(instant=self.column, field=self.kind, keep_for=self.keep_for),)

    @property
    def bound(self) -> str:
        """The age, and the log."""
        return f"{self.column} still for {format_duration(self.keep_for)} and {self.log} pruned past it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap(RowRule):
    """Rows beyond the newest N of each key."""

    kind = "cap"
    reads_other_rows = True  # the newer rows of the key

    rows: int
    order_by: str
    per: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The number of rows."""
        return str(self.rows)

    @property
    def keys(self) -> tuple[str, ...]:
        """The order within a key; the number of rows may change."""
        return (f"{self.kind}:{','.join(self.per)}:{self.order_by}",)

    @property
    def sorted_by(self) -> tuple[str, ...]:
        """The first columns of an index that stores the rows of each key together, in their order."""
        return (*self.per, self.order_by)

    @property
    def bound(self) -> str:
        """The rows that are kept."""
        per = f" per {', '.join(self.per)}" if self.per else ""
        return f"the newest {self.rows}{per} by {self.order_by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLast(Cap):
    """The same rows as a cap, declared by the rows that are kept."""

    kind = "keep_last"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartition(BaseRule):
    """Whole partitions whose newest possible row is older than keep_for."""

    kind = "drop_partition"

    column: str
    keep_for: timedelta
    unit: Unit | None = None

    @property
    def subject(self) -> str:
        """The column of the partitions."""
        return self.column

    @property
    def bound(self) -> str:
        """The age."""
        return f"partitions of {self.column} older than {format_duration(self.keep_for)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Singleton(BaseRule):
    """Deletes nothing: the key itself bounds the table."""

    kind = "singleton"
    deletes = False
    excludes = "declares that the key bounds the table; remove the rules that delete"

    column: str

    @property
    def subject(self) -> str:
        """The column of the key."""
        return self.column

    @property
    def bound(self) -> str:
        """The key."""
        return f"singleton key {self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline(BaseRule):
    """Deletes nothing: the application does; overdue rows show that it stopped doing so."""

    kind = "inline"
    deletes = False

    path: str
    column: str | None = None
    states: tuple[Scalar, ...] = ()
    at: str | None = None
    alarm_after: timedelta | None = None
    unit: Unit | None = None

    @property
    def subject(self) -> str:
        """The code that deletes."""
        return self.path

    @property
    def bound(self) -> str:
        """The code that deletes, and its states."""
        states = f" ({', '.join(map(str, self.states))})" if self.states else ""
        return f"deleted by {self.path}{states}"

    def pruned_by(self, scheduler: str) -> str:  # noqa: ARG002  # the application deletes, not the scheduler
        """Return the code that deletes."""
        return self.path

    def clash(self, other: BaseRule) -> ContractProblem | None:
        """Rows that the application deletes itself must not be pruned a second time."""
        if not self.states or not other.deletes:
            return None
        if not isinstance(other, Terminal):
            message = f"takes rows of every state, but {self.path!r} already deletes {list(self.states)}"
            return ContractProblem(rule=other.kind, message=message)
        both = set(other.states) & set(self.states)
        if other.column != self.column or not both:
            return None
        message = f"{sorted(map(str, both))} is already deleted by {self.path!r}; remove it from one"
        return ContractProblem(rule=other.kind, field="states", message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(BaseRule):
    """Rows that no rule of the table may delete."""

    kind = "keep"
    deletes = False

    column: str
    equals: Scalar

    @property
    def subject(self) -> str:
        """The column of the hold."""
        return self.column

    @property
    def keys(self) -> tuple[str, ...]:
        """The value too: a column may hold rows by several."""
        return (f"{self.kind}:{self.column}={self.equals}",)

    @property
    def bound(self) -> str:
        """A hold bounds nothing."""
        return ""

    def sentences(self) -> Iterator[str]:
        """Yield also which rows are kept."""
        yield from self.words.sentences()
        yield f"Rows with {self.column} = {self.equals!r} are kept."


Rule = Expires | OlderThan | Terminal | StaleCursor | Cap | DropPartition | Singleton | Inline | Keep
