"""Batched deletion for a job that queues itself again: at most so many rows in one run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gandy.errors import ClockDoubtedError, RuleRefusedError
from gandy.lifecycle.contract.tables import Contract, Table
from gandy.lifecycle.supervisor.tick import Attendance, run_contracts
from gandy.sweep import Budget

if TYPE_CHECKING:
    from gandy.lifecycle.supervisor.report import ContractReport

DEFAULT_LIMIT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRowsDeleted:
    """What one run deleted; children are counted apart, so that they do not count against the limit."""

    deleted: int
    limit: int
    children: dict[str, int] = field(default_factory=dict)
    is_second_start: bool = False  # another run of the same deletion holds the lease

    @property
    def has_more(self) -> bool:
        """Whether to queue the next run: the limit was reached, so more rows may be left."""
        return self.deleted == self.limit


def delete_old_rows(
    table: Table, target: str, *, limit: int = DEFAULT_LIMIT, attendance: Attendance | None = None
) -> OldRowsDeleted:
    """Delete at most `limit` rows that the table's rules call dead; a second start does nothing."""
    contract = Contract(f"delete_old_rows.{table.label}", [table], budget=Budget(rows=limit))
    by = replace(attendance or Attendance(), is_limited=True, is_strict=True)
    [report] = run_contracts([contract], target, attendance=by)
    if report.doubt is not None:
        raise ClockDoubtedError(report.doubt)
    for failure in report.failures:
        raise RuleRefusedError(failure.table, failure.rule, failure.error)
    return OldRowsDeleted(
        deleted=sum(outcome.rows for outcome in report.rules),
        limit=limit,
        children=_children(report, table.label),
        is_second_start=report.is_skipped,
    )


def _children(report: ContractReport, table: str) -> dict[str, int]:
    return {name: rows for name, rows in report.counts.items() if name != table}
