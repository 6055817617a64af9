"""What the check of a contract against a database found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gandy.errors import ContractProblem


class Severity(StrEnum):
    """How bad a finding is."""

    WRONG = "wrong"  # the contract does not fit the database: nothing of it should run
    REFUSED = "refused"  # this rule may not delete; the others may
    WARNING = "warning"
    INFORMATION = "information"

    @property
    def stops(self) -> bool:
        """Whether the rule may not delete."""
        return self in {Severity.WRONG, Severity.REFUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found, where, and what would put it right."""

    severity: Severity
    scheduler: str
    table: str
    rule: str
    message: str
    field: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        where = ": ".join(part for part in (f"table {self.table}", self.rule, self.field) if part)
        remedy = f". {self.remedy}" if self.remedy else ""
        return f"{self.scheduler}: {where}: {self.message}{remedy}"

    def as_problem(self, source: str) -> ContractProblem:
        """The finding as one problem of the contract."""
        remedy = f". {self.remedy}" if self.remedy else ""
        return ContractProblem(
            source=source,
            table=self.table,
            rule=self.rule,
            field=self.field,
            message=self.message + remedy,
        )
