"""What became of one rule in one run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from gandy.sweep import Ending, SweepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOutcome:
    """Rows that went and rows that did not, for one rule."""

    table: str
    rule: str
    ending: Ending = Ending.EXHAUSTED
    rows: int = 0
    batches: int = 0
    set_aside: int = 0
    passed_over: int = 0
    elapsed: timedelta = timedelta(0)
    longest_batch: timedelta = timedelta(0)
    reason: str | None = None

    def plus(self, result: SweepResult[tuple[object, ...]]) -> RuleOutcome:
        """This outcome and one more sweep of the same rule."""
        return replace(
            self,
            ending=result.ending,
            rows=self.rows + result.rows,
            batches=self.batches + result.batches,
            set_aside=self.set_aside + result.set_aside,
            passed_over=self.passed_over + result.passed_over,
            elapsed=self.elapsed + result.elapsed,
            longest_batch=max(self.longest_batch, result.longest_batch),
            reason=result.reason or self.reason,
        )

    def after(self, earlier: RuleOutcome) -> RuleOutcome:
        """Both rounds of one run together."""
        return replace(
            self,
            rows=self.rows + earlier.rows,
            batches=self.batches + earlier.batches,
            set_aside=self.set_aside + earlier.set_aside,
            passed_over=self.passed_over + earlier.passed_over,
            elapsed=self.elapsed + earlier.elapsed,
            longest_batch=max(self.longest_batch, earlier.longest_batch),
            reason=self.reason or earlier.reason,
        )

    @property
    def is_done(self) -> bool:
        """Whether nothing that could go was left."""
        return self.ending is Ending.EXHAUSTED
