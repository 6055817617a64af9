"""What one run of a contract did: for people, for JSON, for a run record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from gandy.lifecycle.driver.outcome import RuleOutcome
    from gandy.lifecycle.selection.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFailure:
    """A rule that failed, and why."""

    table: str
    rule: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A rule that waits for a person: it would remove so many rows of so many."""

    table: str
    rule: str
    rows: int
    of: int
    is_counted: bool = True  # False: the count took too long, so both numbers are lower bounds
    is_shared: bool = False  # other rules take some of the rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """Rows that the application's own path should have deleted."""

    table: str
    path: str
    oldest: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a rule keeps up: the lag, what is left, and the rates where they are known."""

    table: str
    rule: str
    lag: timedelta
    backlog: int
    arriving_per_second: float | None = None
    draining_per_second: float | None = None

    @property
    def is_falling_behind(self) -> bool:
        """Whether rows arrive faster than they can go."""
        return (
            self.backlog > 0
            and self.arriving_per_second is not None
            and self.draining_per_second is not None
            and self.arriving_per_second > self.draining_per_second
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A rule that the contract's budget stopped before it was done."""

    table: str
    rule: str
    budget: str  # what was used up: rows or time
    left: int | None  # dead rows that are still there; None where they were not counted
    is_counted: bool = True  # False: there are at least so many


@dataclass(slots=True, kw_only=True)
class ContractReport:
    """One run of one contract."""

    scheduler: str
    started_at: datetime | None = None
    is_skipped: bool = False
    doubt: str | None = None  # why the clock is not believed, so that nothing was done
    counts: dict[str, int] = field(default_factory=dict)
    rules: list[RuleOutcome] = field(default_factory=list)
    failures: list[RuleFailure] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    overdue: list[Overdue] = field(default_factory=list)
    health: list[Health] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)

    def start_over(self) -> None:
        """Drop what was found, not what was done: the rules are judged again."""
        found = (self.rules, self.failures, self.held, self.overdue, self.health, self.warnings)
        for each in (*found, self.unfinished):
            each.clear()

    @property
    def deleted(self) -> int:
        """Rows that went, children included."""
        return sum(self.counts.values())

    @property
    def is_clean(self) -> bool:
        """Whether nothing failed and nothing waits for a person."""
        return not (self.failures or self.held or self.doubt)
