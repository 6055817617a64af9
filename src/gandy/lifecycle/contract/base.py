"""What rules of every kind have in common; `rules.py` has the kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from gandy.errors import ContractProblem
    from gandy.lifecycle.contract.fields import Scalar, Unit
    from gandy.lifecycle.contract.names import Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Documentation of a rule: why it is safe, and which loss is intended."""

    safety: str = ""
    lost_by_design: str = ""

    def sentences(self) -> Iterator[str]:
        """Yield both as sentences, if they are given."""
        if self.safety:
            yield f"{self.safety.rstrip('.')}."
        if self.lost_by_design:
            yield f"Lost by design: {self.lost_by_design.rstrip('.')}."


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRule(ABC):
    """A rule of any kind: what it declares, and what the lifecycle asks it."""

    kind: ClassVar[str]  # its keyword in a contract
    deletes: ClassVar[bool] = True
    excludes: ClassVar[str] = ""  # why no rule of its table may delete; "" if they may

    words: Words = Words()

    @property
    @abstractmethod
    def subject(self) -> str:
        """The value of its keyword."""

    @property
    @abstractmethod
    def bound(self) -> str:
        """The bound in words; "" if it sets none."""

    @property
    def label(self) -> str:
        """A short name, as events and errors use it."""
        return f"{self.kind} {self.subject}"

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that identify the rule within its table.

        Its state is stored under them, in the databases of applications: a kind keeps their form.
        """
        return (f"{self.kind}:{self.subject}",)

    @property
    def reads(self) -> tuple[Reference, ...]:
        """Columns of other tables that decide whether a row is deleted."""
        return ()

    def sentences(self) -> Iterator[str]:
        """Yield the safety of the rule in sentences."""
        yield from self.words.sentences()

    def pruned_by(self, scheduler: str) -> str:
        """Return what deletes the rows; "" if nothing does."""
        return f"{scheduler} sweep" if self.deletes else ""

    def clash(self, other: BaseRule) -> ContractProblem | None:  # noqa: ARG002  # kinds that clash compare it
        """Return the problem if the other rule must not delete rows of this one."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule(BaseRule):
    """A rule that deletes rows one by one; they may have to wait for rows that refer to them."""

    is_final: ClassVar[bool] = False  # a dead row can never become live
    reads_other_rows: ClassVar[bool] = False  # besides the row itself and the rows that it waits for

    wait_for: tuple[Reference, ...] = ()

    @property
    def reads(self) -> tuple[Reference, ...]:
        """The references that rows wait for."""
        return self.wait_for

    def sentences(self) -> Iterator[str]:
        """Yield also which rows it waits for."""
        yield from self.words.sentences()
        if self.wait_for:
            yield f"Waits for {', '.join(map(str, self.wait_for))}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """When rows are dead: `keep_for` after the instant. `equals` limits it to rows with these values."""

    instant: str  # a column
    field: str  # of the contract, which names this column
    keep_for: timedelta
    equals: tuple[tuple[str, Scalar], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeRule(RowRule):
    """A rule whose rows are dead once an instant in them is old enough."""

    column: str
    unit: Unit | None = None

    @property
    def subject(self) -> str:
        """The column."""
        return self.column

    @property
    @abstractmethod
    def ages(self) -> tuple[Age, ...]:
        """One age for each of its keys."""
