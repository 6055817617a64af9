"""One rule with what it became in one database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gandy.lifecycle.contract.matrix import rule_label
from gandy.lifecycle.selection.findings import Finding

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule
    from gandy.lifecycle.contract.tables import Contract, Table
    from gandy.lifecycle.selection.findings import Severity
    from gandy.lifecycle.selection.walks import InlineWatch, Walk


@dataclass(slots=True)
class Resolved:
    """A rule's walks, what is watched for it, and everything found about it."""

    contract: Contract
    declared: Table
    rule: Rule
    walks: tuple[Walk, ...] = ()
    watch: InlineWatch | None = None
    findings: list[Finding] = field(default_factory=list)
    triggers: list[str] = field(default_factory=list)  # that fire when the rule deletes

    @property
    def label(self) -> str:
        """The rule's short name."""
        return rule_label(self.rule)

    @property
    def is_refused(self) -> bool:
        """Whether a finding forbids the rule to delete."""
        return any(finding.severity.stops for finding in self.findings)

    def note(self, severity: Severity, message: str, *, field: str = "", remedy: str = "") -> None:
        """Add a finding about this rule, once."""
        finding = Finding(
            severity=severity,
            scheduler=self.contract.name,
            table=self.declared.label,
            rule=self.label,
            field=field,
            message=message,
            remedy=remedy,
        )
        if finding not in self.findings:
            self.findings.append(finding)
