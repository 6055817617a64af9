"""What one sweep of a contract is given, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from gandy.clock import Clock
    from gandy.lifecycle import Contract
    from gandy.lifecycle.supervisor.report import ContractReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractRequest:
    """Which contract to keep, by its name."""

    scheduler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractShift:
    """The contract, and how its sweep hears that it has to stop."""

    contract: Contract
    is_stopping: Callable[[], bool]
    rest: Callable[[timedelta], None]
    clock: Clock | None = None
    believed: datetime | None = None  # which instant it is, by a clock that is believed
    is_clock_right: bool = False  # a person vouches for the clock
    beside: Sequence[Contract] = ()  # the application's other contracts, whose holds count too


@dataclass(frozen=True, slots=True)
class SweptContract:
    """The report, as a cycle's result."""

    report: ContractReport

    @property
    def counts(self) -> dict[str, int]:
        """What was done, in words and numbers."""
        report = self.report
        done = {
            "deleted": report.deleted,
            **{f"deleted_{report.scheduler}.{table}": rows for table, rows in sorted(report.counts.items())},
            "set_aside": sum(rule.set_aside for rule in report.rules),
            "passed_over": sum(rule.passed_over for rule in report.rules),
            "failed": len(report.failures),
            "held": len(report.held),
            "overdue": len(report.overdue),
            "skipped": int(report.is_skipped or report.doubt is not None),
        }
        return {word: count for word, count in done.items() if count or word == "deleted"}

    @property
    def is_idle(self) -> bool:
        """Whether nothing was there to do, or another process did it."""
        return not any(count for word, count in self.counts.items() if word != "skipped")
