"""The judge's own reading of a contract file: rules, holds, and what becomes of references."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.lifecycle.fuzz.shapes import DEFAULT_SCHEMA, Shape, Slot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DELETING = ("expires", "older_than", "terminal", "cap", "keep_last", "stale_cursor")
_FALSE = {"", "0", "false", "f", "no", "n", "off"}
_TRUE = {"1", "true", "t", "yes", "y", "on"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that deletes, with the references it waits for and the modes of its table."""

    contract: str
    table: str
    kind: str
    entry: Mapping[str, Any]
    waits: frozenset[Slot]
    modes: Mapping[Slot, str]
    triggers: frozenset[str]
    is_budgeted: bool
    bound: int = 1_000  # rows of one batch, with all that goes along

    @property
    def most(self) -> int:
        """Rows that go at once with one row that may not go in parts."""
        return 10 * self.bound

    @property
    def is_final(self) -> bool:
        """Whether a row that is dead stays so: what hangs on it may then go first, part by part."""
        return self.kind in {"older_than", "terminal"} and not self.waits

    @property
    def takes(self) -> frozenset[Slot]:
        """The references whose rows go along."""
        return frozenset(slot for slot, mode in self.modes.items() if mode in {"delete_first", "cascade"})


@dataclass(frozen=True, slots=True)
class Hold:
    """Rows that no rule may take."""

    table: str
    column: str
    equals: object

    def holds(self, value: object, kind: str) -> bool:
        """Whether a stored value holds its row: all that is not clearly false does."""
        if value is None:
            return False
        if not isinstance(self.equals, bool):
            return str(value) == str(self.equals)
        if kind == "bool" and isinstance(value, bool):
            return value == self.equals
        return str(value).strip().lower() not in (_FALSE if self.equals else _TRUE)


@dataclass(slots=True)
class Contracts:
    """Everything that a contract file says about one database."""

    text: str
    shape: Shape
    rules: list[Rule] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    owners: dict[str, set[str]] = field(default_factory=dict)
    deleters: dict[str, set[str]] = field(default_factory=dict)
    first: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, section in tomllib.loads(self.text)["lifecycle"].items():
            for entry in section["tables"]:
                self._table(name, entry, section)

    def _table(self, contract: str, entry: Mapping[str, Any], section: Mapping[str, Any]) -> None:
        is_budgeted = "rows" in section.get("budget", {})
        bound = section.get("batch", {}).get("max", 1_000)
        label = self.label(entry["name"], entry.get("schema"))
        self.owners.setdefault(label, set()).add(contract)
        modes = {self.slot(text, label): mode for text, mode in entry.get("children", {}).items()}
        before = self.first.setdefault((contract, label), set())
        before.update(child for child, _ in modes)
        for rule in entry["rules"]:
            if "keep" in rule:
                self.holds.append(Hold(label, rule["keep"]["column"], rule["keep"]["equals"]))
                continue
            kind = next(kind for kind in DELETING if kind in rule)
            waits = frozenset(self.slot(text, label) for text in rule.get("wait_for", []))
            before.update(child for child, _ in waits)
            if kind == "stale_cursor":
                before.add(self.beside(rule["log"], label))
            self.deleters.setdefault(label, set()).add(contract)
            triggers = frozenset(entry.get("triggers", []))
            self.rules.append(Rule(contract, label, kind, rule, waits, modes, triggers, is_budgeted, bound))

    def label(self, name: str, schema: str | None) -> str:
        """The label of a table that a contract names."""
        if self.shape.database == "sqlite":
            return name
        return f"{schema or DEFAULT_SCHEMA}.{name}"

    def beside(self, name: str, label: str) -> str:
        """The table of this name in the schema of another one."""
        return self.label(name, label.rpartition(".")[0] or None)

    def slot(self, text: str, label: str) -> Slot:
        """Read `table.column`, `schema.table.column` or `table.first,second`; bare: same schema."""
        *schema, table, columns = text.split(".")
        child = self.label(table, schema[0]) if schema else self.beside(table, label)
        return child, tuple(column.strip() for column in columns.split(","))

    def runs_before(self, contract: str, label: str) -> set[str]:
        """Tables that one sweep of the contract surely finishes before this one; none where they circle."""
        reached: set[str] = set()
        ahead = set(self.first.get((contract, label), ()))
        while ahead:
            reached |= ahead
            ahead = {one for name in ahead for one in self.first.get((contract, name), ())} - reached
        mine = {name for name in reached if (contract, name) in self.first}
        return set() if label in reached else mine

    def holds_on(self, label: str) -> Iterator[Hold]:
        """The holds of a table, of whatever contract."""
        return (hold for hold in self.holds if hold.table == label)
