"""Holding one sweep against the judge: rows too many, rows too few, references, counts and the plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.lifecycle.fuzz.instants import Passed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lifecycle.fuzz.contracts import Contracts, Rule
    from tests.lifecycle.fuzz.judge import Judge, Ruling
    from tests.lifecycle.fuzz.shapes import Place, World

Where = tuple[str, str]  # a contract and a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the dry run said of the rules of one table."""

    rows: int = 0
    children: int = 0
    is_refused: bool = False
    is_counted: bool = True


@dataclass(slots=True, kw_only=True)
class Said:
    """What the run said of itself, in plain words."""

    refused: str | None = None  # why the whole file was refused
    failed: set[Where] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)  # contracts that were not kept at all
    errors: list[str] = field(default_factory=list)
    counted: int = 0
    by_table: Counter[Where] = field(default_factory=Counter)  # rows that the rules of a table took
    planned: dict[Where, Planned] | None = None


@dataclass(slots=True)
class Verdict:
    """Compares the rows before and after one sweep without writers."""

    judge: Judge
    after: World
    said: Said

    @property
    def contracts(self) -> Contracts:
        """What was promised."""
        return self.judge.contracts

    @property
    def missing(self) -> set[Place]:
        """Rows that went."""
        return self.judge.world.places() - self.after.places()

    def faults(self) -> list[str]:
        """Every broken promise."""
        return [
            *self.too_many(),
            *self.changed(),
            *self.too_few(),
            *self.miscounted(),
            *self.misplanned(),
        ]

    def too_many(self) -> Iterator[str]:
        """Rows that no rule could take, and rows that appeared."""
        for place in sorted(self.missing - self.judge.may_go()):
            yield f"row too many: {place} went, and no rule may take it"
        for place in sorted(self.after.places() - self.judge.world.places()):
            yield f"row from nowhere: {place}"
        for ruling in self.judge.rulings:
            if ruling.rule.kind in {"cap", "keep_last"}:
                yield from self._below_the_cap(ruling)
            if not self.judge.goes_in_parts(ruling.rule):
                yield from self._too_heavy(ruling)

    def _too_heavy(self, ruling: Ruling) -> Iterator[str]:
        """A row goes at once with all that hangs on it, and not at all where no batch could hold that."""
        judge, rule = self.judge, ruling.rule
        families = {place: judge.family(rule, place) for place in ruling.roots}
        others = self._touched_by_others(ruling)
        for place in sorted(ruling.roots):
            beside = set().union(others, *(families[other] for other in families if other != place))
            if place not in self.missing:
                for torn in sorted((families[place] - beside) & self.missing):
                    yield f"row too many: {torn} went, and {place} that it hangs on did not"
            elif len(families[place]) > rule.most and not families[place] & beside:
                yield f"row too many: {place} went with more than {rule.most} rows at once"

    def _touched_by_others(self, ruling: Ruling) -> set[Place]:
        """Rows that other rules may take or change."""
        others = [other for other in self.judge.rulings if other is not ruling]
        cuts = (self.judge.cut(other.rule, other.taken) for other in others)
        return set().union(*(other.taken for other in others), *({place for place, _ in cut} for cut in cuts))

    def _below_the_cap(self, ruling: Ruling) -> Iterator[str]:
        """Of rows that tie at the edge, only as many may go as are beyond it."""
        explained = self._taken_by_others(ruling)
        for group in self._groups(ruling.rule):
            beyond = max(0, len(group) - ruling.rule.entry[ruling.rule.kind])
            alone = (group & self.missing) - explained
            if len(alone) > beyond:
                yield f"row too many: {sorted(alone)} went of a group that is {beyond} rows beyond its cap"

    def _taken_by_others(self, ruling: Ruling) -> set[Place]:
        others = (other.taken for other in self.judge.rulings if other is not ruling)
        return set().union(*others, ruling.taken - ruling.roots)

    def _groups(self, rule: Rule) -> list[set[Place]]:
        groups: dict[str, set[Place]] = {}
        for mark, row in self.judge.world.rows[rule.table].items():
            key = repr([row[name] for name in rule.entry.get("per", [])])
            groups.setdefault(key, set()).add((rule.table, mark))
        return list(groups.values())

    def changed(self, written: frozenset[Place] = frozenset()) -> Iterator[str]:
        """Columns that became something else than a reference to a row that went; not those of writers."""
        cut = self._cut()
        for label, rows in self.after.rows.items():
            for mark, row in rows.items():
                place, before = (label, mark), self.judge.world.rows[label].get(mark, row)
                for column in [name for name in row if row[name] != before[name]]:
                    if place in written or (row[column] is None and (place, column) in cut):
                        continue
                    yield f"changed: {column} of {place} from {before[column]!r} to {row[column]!r}"

    def _cut(self) -> set[tuple[Place, str]]:
        """The references to rows that went, where a rule that could take them says set_null."""
        missing = self.missing
        return {
            found
            for ruling in self.judge.rulings
            for found in self.judge.cut(ruling.rule, (ruling.taken & missing) | self._lightened(ruling))
        }

    def _lightened(self, ruling: Ruling) -> set[Place]:
        """Rows that may lose what hangs on them before they go themselves."""
        judge, rule = self.judge, ruling.rule
        roots = ruling.roots if judge.goes_in_parts(rule) else ()
        heavy = [place for place in roots if judge.is_heavy(rule, place)]
        return set().union(*(judge.family(rule, place) for place in heavy))

    def too_few(self) -> Iterator[str]:
        """Rows that had to go and are there."""
        if self.said.refused is not None:
            return
        for place in sorted(self.must_go() & self.after.places()):
            yield f"row too few: {place} had to go"
        for ruling in self.judge.rulings:
            if ruling.rule.kind in {"cap", "keep_last"} and self._is_bound(ruling):
                yield from self._above_the_cap(ruling)

    def _above_the_cap(self, ruling: Ruling) -> Iterator[str]:
        for group in self._groups(ruling.rule):
            beyond = len(group) - ruling.rule.entry[ruling.rule.kind]
            blocked = group & self.judge.set_aside or any(
                self.judge.is_blocked(ruling.rule, place, gone=()) for place in group
            )
            if not blocked and not group & self._taken_by_others(ruling) and self._has_order(ruling, group):
                left = beyond - len(group & self.missing)
                if left > 0:
                    yield f"row too few: {left} rows of {sorted(group)} are left beyond their cap"

    def _has_order(self, ruling: Ruling, group: set[Place]) -> bool:
        """Rows without a value to order by may be read as bounded or not."""
        column = ruling.rule.entry["order_by"]
        names = [column, *ruling.rule.entry.get("per", [])]
        rows = self.judge.world.rows[ruling.rule.table]
        return all(rows[mark][name] is not None for _, mark in group for name in names)

    def must_go(self) -> set[Place]:
        """The rows that nothing protects, refuses, holds back or cuts short."""
        must: set[Place] = set()
        size = -1
        while size < len(must):
            size = len(must)
            for ruling in self.judge.rulings:
                if self._is_bound(ruling):
                    must |= self._certain(ruling, must)
        return must

    def _is_bound(self, ruling: Ruling) -> bool:
        rule = ruling.rule
        return not (
            ruling.is_refused
            or rule.is_budgeted
            or self.said.refused is not None
            or rule.contract in self.said.whole
            or (rule.contract, rule.table) in self.said.failed
            or len(self.contracts.owners[rule.table]) > 1
            or not self._is_clear(rule)
        )

    def _is_clear(self, rule: Rule) -> bool:
        """Texts of several forms may stop a rule that reads them, or be passed over."""
        column = rule.entry.get("at", rule.entry.get(rule.kind))
        table = self.judge.shape.table(rule.table)
        if not isinstance(column, str) or table.column(column).kind != "iso":
            return True
        texts = [row[column] for row in self.judge.world.rows[rule.table].values()]
        return len({(len(text), text[10:11]) for text in texts if text is not None}) <= 1

    def _certain(self, ruling: Ruling, must: set[Place]) -> set[Place]:
        rule, rows = ruling.rule, self.judge.world.rows[ruling.rule.table]
        before = self.contracts.runs_before(rule.contract, rule.table)
        gone = {place for place in must if place[0] in before}
        return {
            place
            for place in ruling.roots - self.judge.set_aside
            if self.judge.matches(rule, rows[place[1]]) is Passed.YES
            and self._is_beyond(ruling, place)
            and not self.judge.is_blocked(rule, place, gone=gone)
        }

    def _is_beyond(self, ruling: Ruling, place: Place) -> bool:
        """Other rules may take newer rows first, and a cap then keeps older ones."""
        rule = ruling.rule
        if rule.kind not in {"cap", "keep_last"}:
            return True
        row = self.judge.world.rows[place[0]][place[1]]
        newer = self.judge.newer(rule, row) - self._taken_by_others(ruling)
        has_values = self._has_order(ruling, {place})
        return has_values and len(newer) >= rule.entry[rule.kind]

    def miscounted(self) -> Iterator[str]:
        """The run must count every row that went, children included."""
        if self.said.counted != len(self.missing):
            yield f"miscounted: the run says {self.said.counted} rows, {len(self.missing)} went"

    def _lost_its_form(self, where: tuple[str, str]) -> bool:
        """An earlier rule may take the rows whose form prevailed in a column that this rule reads."""
        mine = [error for error in self.said.errors if error.startswith(" ".join(where))]
        lost = ("instants in more than one form", "instants in another form than", "which is not an instant")
        return bool(self.missing) and all(any(each in error for each in lost) for error in mine)

    def misplanned(self) -> Iterator[str]:
        """Where rules do not touch each other's rows, plan, run and judge say one number."""
        if self.said.planned is None or self.said.refused is not None:
            return
        for where, plan in self.said.planned.items():
            if where in self.said.failed and not plan.is_refused and not self._lost_its_form(where):
                yield f"failed: {where} was not refused by the plan, and failed: {self.said.errors}"
        expected = None if self.said.failed or self.said.whole else self.expected()
        for where, (rows, children) in (expected or {}).items():
            found = self.said.planned.get(where, Planned())
            if not found.is_counted:
                continue
            if found.rows != rows:
                yield f"misplanned: {where} plans {found.rows} rows, the judge expects {rows}"
            if found.children not in children:
                yield f"misplanned: {where} plans {found.children} children, the judge expects {children}"

    def expected(self) -> dict[Where, tuple[int, set[int]]] | None:
        """Rows and children of each table's rules; None where rules touch each other's rows."""
        seen: set[Place] = set()
        found: dict[Where, tuple[int, set[int]]] = {}
        for ruling in self.judge.rulings:
            if not self._is_bound(ruling) or not self._is_alone(ruling) or ruling.taken & seen:
                return None
            seen |= ruling.taken
            where = (ruling.rule.contract, ruling.rule.table)
            rows, children = found.get(where, (0, {0}))
            more = len(ruling.taken) - len(ruling.roots)
            nulled = len({place for place, _ in self.judge.cut(ruling.rule, ruling.taken)})
            sums = {count + extra for count in children for extra in (more, more + nulled)}
            found[where] = (rows + len(ruling.roots), sums)
        return found

    def _is_alone(self, ruling: Ruling) -> bool:
        """Whether every root is certain, enabled by no other row, and shares no child with another root."""
        judge, rule = self.judge, ruling.rule
        families = [judge.family(rule, place) for place in ruling.roots]
        cuts = [judge.cut(rule, family) for family in families]
        is_cap = rule.kind in {"cap", "keep_last"}
        return (
            sum(map(len, families)) == len(ruling.taken)
            and all(self._is_tree(rule, family) for family in families)
            and sum(map(len, cuts)) == len(set().union(*cuts))
            and self._certain(ruling, set()) == ruling.roots
            and not (is_cap and self._taken_by_others(ruling) & self._rows_of(rule.table))
        )

    def _is_tree(self, rule: Rule, family: set[Place]) -> bool:
        """Whether each row of a family is reached by one reference only: others are counted twice."""
        takes = [link for link in self.judge.links_of(rule) if link.slot in rule.takes]
        reached = [
            child
            for link in takes
            for place in family
            if place[0] == link.parent
            for child in self.judge.world.referring(link, place)
        ]
        return len(reached) == len(family) - 1

    def _rows_of(self, label: str) -> set[Place]:
        return {(label, mark) for mark in self.judge.world.rows[label]}
