"""Which rows may go, which must, and what a reference may become: computed from the contract's text alone.

Where two readings of a rule are possible, a row that only one of them takes neither may nor must go,
except where the documented reading is the wider one; such rows may go and need not:
an instant exactly at the cutoff, -infinity, rows of one rank at the edge of a cap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.lifecycle.fuzz.instants import UNITS, Passed, duration, fits, has_passed, is_instant, rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from tests.lifecycle.fuzz.contracts import Contracts, Rule
    from tests.lifecycle.fuzz.shapes import Link, Place, Row, Shape, World

_MOST_WAYS = 2_000  # below one row; families are small


@dataclass(slots=True)
class Ruling:
    """What one rule may take."""

    rule: Rule
    is_refused: bool
    roots: set[Place] = field(default_factory=set)
    taken: set[Place] = field(default_factory=set)


@dataclass(slots=True)
class Judge:
    """Judges one database at one frozen instant."""

    contracts: Contracts
    world: World
    now: datetime
    gone: frozenset[Place] = frozenset()  # rows that writers deleted themselves
    aside: frozenset[Place] = frozenset()  # rows that an earlier sweep may have set aside
    rulings: list[Ruling] = field(default_factory=list)
    set_aside: frozenset[Place] = (
        frozenset()
    )  # rows that need not go: a batch may not hold what hangs on them

    def __post_init__(self) -> None:
        self.rulings = [Ruling(rule, self.must_refuse(rule)) for rule in self.contracts.rules]
        while sum(self._widen(ruling) for ruling in self.rulings):
            pass
        may_go = self.may_go()
        for ruling in self.rulings:
            families = (self.family(ruling.rule, place) for place in ruling.roots)
            ruling.taken = set().union(*families) & may_go
        self.set_aside = self.aside.union(*map(self._heavy, self.rulings))

    @property
    def shape(self) -> Shape:
        """The schema."""
        return self.world.shape

    def may_go(self) -> set[Place]:
        """Every row that some rule may take, alone or with its parent."""
        return set().union(*(ruling.taken for ruling in self.rulings))

    def _widen(self, ruling: Ruling) -> bool:
        """Add the rows that can go once everything that may go is gone; whether there were any."""
        if ruling.is_refused:
            return False
        gone = self.may_go() | self.gone
        before = len(ruling.roots), len(ruling.taken)
        ruling.roots |= {
            place
            for place in self.candidates(ruling.rule)
            if place not in ruling.roots and not self.is_blocked(ruling.rule, place, gone=gone - {place})
        }
        for place in ruling.roots:
            ruling.taken |= self._going_with(ruling.rule, place, gone)
        return before != (len(ruling.roots), len(ruling.taken))

    def _going_with(self, rule: Rule, place: Place, gone: set[Place]) -> set[Place]:
        """All that hangs on a row that may go, or what is left of that once other rules were there first."""
        family = self.family(rule, place)
        if not self.is_blocked(rule, place, gone=gone - family):
            return family
        return set().union(*self._by_each_way(rule, place, gone))

    def _by_each_way(self, rule: Rule, place: Place, gone: set[Place]) -> Iterator[set[Place]]:
        """What goes with a row where all that may be gone is gone, but for the rows on one way below it.

        What blocks a way, a held row perhaps, blocks every longer one.
        """
        seen: set[frozenset[Place]] = set()
        ways: list[tuple[Place, ...]] = [(place,)]
        while ways and len(seen) < _MOST_WAYS:
            way = ways.pop()
            left = gone - set(way)
            if frozenset(way) in seen or self.is_blocked(rule, place, gone=left):
                continue
            seen.add(frozenset(way))
            yield self.family(rule, place, gone=left)
            below = self.family(rule, way[-1], gone=left)
            ways += [(*way, child) for each in below for child in self._below(rule, each) if child in left]

    def _heavy(self, ruling: Ruling) -> set[Place]:
        """The rows with which more would go than go at once, where they cannot go in parts."""
        roots = () if self.goes_in_parts(ruling.rule) else ruling.roots
        return {place for place in roots if self.is_heavy(ruling.rule, place)}

    def candidates(self, rule: Rule) -> set[Place]:
        """The rows that the rule's own words may mean."""
        rows = self.world.rows[rule.table]
        return {(rule.table, mark) for mark, row in rows.items() if self.matches(rule, row) > Passed.NO}

    def matches(self, rule: Rule, row: Row) -> Passed:
        """Whether the rule means a row, by its own columns and, for caps, its group."""
        entry = rule.entry
        match rule.kind:
            case "expires":
                return self.passed(rule, row, entry["expires"], entry.get("grace", "0s"))
            case "older_than" | "stale_cursor":
                return self.passed(rule, row, entry[rule.kind], entry["keep_for"])
            case "terminal":
                return self._terminal(rule, row)
            case _:
                return self._beyond(rule, row)

    def passed(self, rule: Rule, row: Row, column: str, keep_for: str) -> Passed:
        """Whether an instant of the row is older than a duration."""
        kind, cutoff = self.shape.table(rule.table).column(column).kind, self.now - duration(keep_for)
        if "unit" not in rule.entry and kind == "iso" and self._holds_digits_alone(rule, column):
            return Passed.NO if row[column] is None else Passed.OPEN
        other = None if "unit" in rule.entry else self._only_other_unit(rule, column, kind)
        if other is not None:
            return min(Passed.OPEN, has_passed(row[column], other, cutoff))
        return has_passed(row[column], kind, cutoff)

    def _holds_digits_alone(self, rule: Rule, column: str) -> bool:
        """Texts that are numbers, and nothing else: they may well be read as such."""
        values = [row[column] for row in self.world.rows[rule.table].values()]
        return all(value is None or str(value).isdigit() for value in values)

    def _only_other_unit(self, rule: Rule, column: str, kind: str) -> str | None:
        """The one unit that values fit where none fits the column's own: a unit follows from the data."""
        if kind not in UNITS:
            return None
        values = [row[column] for row in self.world.rows[rule.table].values()]
        fitting = {unit for unit in UNITS if any(fits(value, unit) for value in values)}
        return fitting.pop() if len(fitting) == 1 and kind not in fitting else None

    def _terminal(self, rule: Rule, row: Row) -> Passed:
        state, keep_for = row[rule.entry["terminal"]], rule.entry["keep_for"]
        if state is None or state not in rule.entry["states"]:
            return Passed.NO
        span = keep_for if isinstance(keep_for, str) else keep_for[state]
        return self.passed(rule, row, rule.entry["at"], span)

    def _beyond(self, rule: Rule, row: Row) -> Passed:
        group = self.group(rule, row)
        mine = self._rank(rule, row)
        newer = sum(1 for other in group if other is not row and self._rank(rule, other) > mine)
        tied = sum(1 for other in group if other is not row and self._rank(rule, other) == mine)
        kept = rule.entry[rule.kind]
        if newer >= kept:
            return Passed.YES
        return Passed.OPEN if newer + tied >= kept else Passed.NO

    def _rank(self, rule: Rule, row: Row) -> tuple[int, object]:
        column = rule.entry["order_by"]
        return rank(row[column], self.shape.table(rule.table).column(column).kind)

    def group(self, rule: Rule, row: Row) -> list[Row]:
        """The rows that share the key of a cap; NULL is a key of its own."""
        per = rule.entry.get("per", [])
        wanted = [row[name] for name in per]
        rows = self.world.rows[rule.table].values()
        return [other for other in rows if [other[name] for name in per] == wanted]

    def newer(self, rule: Rule, row: Row) -> set[Place]:
        """The rows of the group that are strictly newer."""
        mine = self._rank(rule, row)
        group = self.group(rule, row)
        return {(rule.table, other["mark"]) for other in group if self._rank(rule, other) > mine}

    def is_blocked(self, rule: Rule, place: Place, *, gone: Iterable[Place]) -> bool:
        """Whether a hold, a wait_for or an unread log protects a row or what would go with it."""
        gone = set(gone)
        if rule.kind == "stale_cursor" and self._is_unread(rule, place, gone):
            return True
        return any(
            self.is_held(member) or self._is_awaited(rule, member, gone)
            for member in self.family(rule, place, gone=gone)
        )

    def is_held(self, place: Place) -> bool:
        """Whether a keep of any contract holds the row."""
        table, row = self.shape.table(place[0]), self.world.rows[place[0]][place[1]]
        return any(
            hold.holds(row[hold.column], table.column(hold.column).kind)
            for hold in self.contracts.holds_on(place[0])
        )

    def _is_awaited(self, rule: Rule, place: Place, gone: set[Place]) -> bool:
        if place[0] != rule.table:
            return False
        return any(
            child not in gone and child != place  # a row that refers to itself goes with itself
            for link in self.links_of(rule)
            if link.slot in rule.waits and link.parent == rule.table
            for child in self.world.referring(link, place)
        )

    def _is_unread(self, rule: Rule, place: Place, gone: set[Place]) -> bool:
        """The log still holds a row older than the cursor's progress, or one whose age nothing tells."""
        label, column = self.contracts.beside(rule.entry["log"], rule.table), rule.entry["log_at"]
        kind = self.shape.table(label).column(column).kind
        mine = self.world.rows[place[0]][place[1]][rule.entry["stale_cursor"]]
        return any(
            row[column] is None
            or rank(row[column], kind) < rank(mine, kind)
            or not is_instant(row[column], kind)
            for mark, row in self.world.rows[label].items()
            if (label, mark) not in gone
        )

    def family(self, rule: Rule, place: Place, *, gone: Iterable[Place] = ()) -> set[Place]:
        """The row and all that would go with it, at any depth."""
        left, found, ahead = set(gone), {place}, [place]
        while ahead:
            fresh = self._below(rule, ahead.pop()) - found - left
            found |= fresh
            ahead.extend(fresh)
        return found

    def _below(self, rule: Rule, parent: Place) -> set[Place]:
        """The rows that would go with a row because they refer to it themselves."""
        return {
            child
            for link in self.links_of(rule)
            if link.slot in rule.takes and link.parent == parent[0]
            if not (link.slot in rule.waits and parent[0] == rule.table)
            for child in self.world.referring(link, parent)
        }

    def weight(self, rule: Rule, place: Place, *, path: tuple[Place, ...] = ()) -> int:
        """How many rows would go or let go with a row, itself included, by every way that leads to them."""
        if place in path:
            return 0
        reached = [
            (link, child)
            for link in self.links_of(rule)
            if link.slot in rule.modes and link.parent == place[0]
            if not (link.slot in rule.waits and place[0] == rule.table)
            for child in self.world.referring(link, place)
        ]
        return 1 + sum(
            self.weight(rule, child, path=(*path, place)) if link.slot in rule.takes else 1
            for link, child in reached
        )

    def is_heavy(self, rule: Rule, place: Place) -> bool:
        """Whether more would go with a row than its rule takes at once."""
        return self.weight(rule, place) > (rule.bound if self.goes_in_parts(rule) else rule.most)

    def goes_in_parts(self, rule: Rule) -> bool:
        """Whether what hangs on a row may go before it: no trigger may keep the row in the end."""
        taken = self._tables_taken(rule)
        return rule.is_final and all(self.shape.table(label).trigger is None for label in taken)

    def cut(self, rule: Rule, family: set[Place]) -> set[tuple[Place, str]]:
        """The references to a family that its rule says become NULL."""
        return {
            (child, column)
            for link in self.links_of(rule)
            if rule.modes.get(link.slot) == "set_null"
            for place in family
            if place[0] == link.parent
            for child in self.world.referring(link, place)
            for column in link.nulled
        }

    def links_of(self, rule: Rule) -> list[Link]:
        """The references that bear on a rule: every key, and its own table's conventions."""
        return [link for link in self.shape.links if link.has_key or link.parent == rule.table]

    def must_refuse(self, rule: Rule) -> bool:
        """Whether the schema alone forbids the rule to take anything."""
        if len(self.contracts.deleters[rule.table]) > 1 or self._cannot_judge(rule):
            return True
        taken = self._tables_taken(rule)
        return any(self.shape.table(label).trigger not in {None, *rule.triggers} for label in taken) or any(
            self._is_uncovered(rule, link)
            for link in self.links_of(rule)
            if link.parent in taken and not (link.parent == rule.table and link.slot in rule.waits)
        )

    def _cannot_judge(self, rule: Rule) -> bool:
        """Whether the role is kept from a table that the rule reads or changes."""
        limit = self.shape.limit
        if limit is None:
            return False
        deleted = self._tables_taken(rule)
        if limit.what == "delete":
            return limit.table in deleted
        named = {*rule.waits, *rule.modes}  # a mode below a child that is waited for concerns no row
        links = [link for link in self.links_of(rule) if link.has_key or link.slot in named]
        read = {link.child for link in links if link.parent in deleted}
        if rule.kind == "stale_cursor":
            read.add(self.contracts.beside(rule.entry["log"], rule.table))
        return limit.table in deleted | read

    def _tables_taken(self, rule: Rule) -> set[str]:
        """The tables that a rule deletes from."""
        tables, size = {rule.table}, 0
        links = [link for link in self.links_of(rule) if link.slot in rule.takes]
        while size < len(tables):
            size = len(tables)
            for link in links:
                if link.parent in tables and not (link.parent == rule.table and link.slot in rule.waits):
                    tables.add(link.child)
        return tables

    def _is_uncovered(self, rule: Rule, link: Link) -> bool:
        mode = rule.modes.get(link.slot)
        if mode is None:
            return link.has_key
        if mode == "set_null":
            child = self.shape.table(link.child)
            return any(not child.column(name).is_nullable for name in link.nulled)
        return mode == "cascade" and (not link.has_key or link.action != "CASCADE")
