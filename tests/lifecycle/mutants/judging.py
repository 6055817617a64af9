"""Mutants of what judges a rule and of what selects its rows."""

from __future__ import annotations

from tests.lifecycle.mutants.mutant import Mutant

HOLDS = [
    Mutant(
        breaks="the holds of other contracts",
        file="selection/holds.py",
        old="for contract in self.contracts:",
        new="for contract in self.contracts[:1]:",
        tests=["test_holds.py"],
    ),
    Mutant(
        breaks="the hold on the row itself, in rules by age",
        file="selection/shapes.py",
        old="conditions=(*more, *self.holds.not_held(self.facts)),",
        new="conditions=(*more,),",
        tests=["test_holds.py"],
    ),
    Mutant(
        breaks="the hold on the row itself, in caps",
        file="selection/shapes.py",
        old="conditions=tuple(self.holds.not_held(self.facts)),\n            guards=surrounding",
        new="conditions=(),\n            guards=surrounding",
        tests=["test_holds.py"],
    ),
    Mutant(
        breaks="holds on what goes along",
        file="selection/shapes.py",
        old="return children, (*waits, *self.holds.none_held_below(self.facts, children))",
        new="return children, (*waits,)",
        tests=["test_holds.py"],
    ),
    Mutant(
        breaks="holds below the first level",
        file="selection/holds.py",
        old="held += self._held_below(other, child.children)",
        new="held += []",
        tests=["test_holds.py"],
    ),
    Mutant(
        breaks="values that are not clearly false",
        file="selection/holds.py",
        old="return func.lower(cast(column, Text)).not_in(_TRUE if value else _FALSE)",
        new="return func.lower(cast(column, Text)).in_(_FALSE if value else _TRUE)",
        tests=["test_holds.py"],
    ),
    Mutant(
        breaks="the stop for a hold whose column is gone",
        file="selection/holds.py",
        old="if keep.column not in facts.columns:",
        new="if False:",
        tests=["test_holds.py", "test_recorded_holds.py"],
    ),
    Mutant(
        breaks="the reading of recorded holds",
        file="state/holds.py",
        old="return frozenset(Hold(*row) for row in connection.execute(select(*HOLD.c)))",
        new="return frozenset()",
        tests=["test_recorded_holds.py"],
    ),
    Mutant(
        breaks="the recording of holds",
        file="state/holds.py",
        old="        for hold in mine - before:",
        new="        for hold in set[Hold]():",
        tests=["test_recorded_holds.py"],
    ),
    Mutant(
        breaks="the hold on a partition",
        file="driver/partitions.py",
        old="held = [any_held(clause, walk.keeps)] if walk.keeps else []",
        new="held: list[ColumnElement[bool]] = []",
        tests=["test_holds.py"],
    ),
    Mutant(
        breaks="the second look at a partition, once it is locked",
        file="driver/partitions.py",
        old="if is_held(connection, self.walk, partition, dialect=dialect):  # a hold set meanwhile\n"
        "                    return outcome",
        new="",
        tests=["test_partitions.py"],
    ),
]

KEYS = [
    Mutant(
        breaks="the stop for a key that nothing covers",
        file="selection/children.py",
        old="raise NotCoveredError(_uncovered(key))",
        new="continue",
        tests=["test_catalogue.py"],
    ),
    Mutant(
        breaks="the stop for SET NULL on a column that is NOT NULL",
        file="selection/children.py",
        old="if not child.columns[column].is_nullable:",
        new="if False:",
        tests=["test_children.py"],
    ),
    Mutant(
        breaks="the stop for cascade without ON DELETE CASCADE",
        file="selection/children.py",
        old='if mode is ChildMode.CASCADE and key.on_delete != "CASCADE":',
        new="if False:",
        tests=["test_children.py"],
    ),
    Mutant(
        breaks="the stop for a circle of keys",
        file="selection/children.py",
        old="            if key.child in seen:",
        new="            if False:",
        tests=["test_children.py"],
    ),
    Mutant(
        breaks="the stop for a key to one partition whose values may recur",
        file="selection/children.py",
        old="if key.member is None or (parent.is_partitioned and parent.is_unique_on(key.parent_columns)):",
        new="if True:",
        tests=["test_catalogue.py"],
    ),
    Mutant(
        breaks="the stop for children that inheriting tables have",
        file="selection/children.py",
        old="        if child.inheritors:",
        new="        if False:",
        tests=["test_catalogue.py"],
    ),
    Mutant(
        breaks="the home schema of a bare reference",
        file="selection/children.py",
        old="return TableName(reference.schema or self._home, reference.table)",
        new='return TableName(reference.schema or "public", reference.table)',
        tests=["test_catalogue.py"],
    ),
    Mutant(
        breaks="wait_for",
        file="selection/shapes.py",
        old="waits = [family.is_unreferenced(self.facts, reference) for reference in rule.wait_for]",
        new="waits: list[ColumnElement[bool]] = []",
        tests=["test_writers.py"],
    ),
    Mutant(
        breaks="the stop for a child whose rows nothing identifies",
        file="selection/children.py",
        old="        if not child.is_partitioned:",
        new="        if False:",
        tests=["test_row_ids.py"],
    ),
    Mutant(
        breaks="the rows of a log whose age is unknown",
        file="selection/shapes.py",
        old="if log.columns[rule.log_at].is_nullable",
        new="if False",
        tests=["test_rules.py"],
    ),
    Mutant(
        breaks="the stop for a partition whose table has rules",
        file="selection/shapes.py",
        old="if roots and not declared.only_keeps:",
        new="if False:",
        tests=["test_partitions.py"],
    ),
    Mutant(
        breaks="the stop for a trigger that a drop passes over",
        file="selection/findings.py",
        old="_raise_if_any([*self._elsewhere(self.target), *passed_over])",
        new="_raise_if_any([*self._elsewhere(self.target)])",
        tests=["test_partitions.py"],
    ),
    Mutant(
        breaks="the question whether the log was read",
        file="selection/shapes.py",
        old="guards=(~unread,))",
        new="guards=())",
        tests=["test_rules.py"],
    ),
    Mutant(
        breaks="the right to read a log, asked before its values are",
        file="selection/shapes.py",
        old="self.obstacles.judge_log(log)",
        new="pass",
        tests=["test_obstacles.py"],
    ),
    Mutant(
        breaks="the stop for a key that is compared otherwise than by a statement",
        file="selection/children.py",
        old="    if key.doubt is None:",
        new="    if True:",
        tests=["test_equality.py"],
    ),
    Mutant(
        breaks="the stop for values of a type whose operator is hidden",
        file="selection/children.py",
        old="if (doubt := column.comparison.hidden) is not None:",
        new="if (doubt := column.comparison.hidden) is not None and False:",
        tests=["test_equality.py"],
    ),
]

OBSTACLES = [
    Mutant(
        breaks="the stop for a missing DELETE",
        file="selection/findings.py",
        old="if need.deletes and not standing.may_delete:",
        new="if False:",
        tests=["test_obstacles.py"],
    ),
    Mutant(
        breaks="the stop for a missing SELECT",
        file="selection/findings.py",
        old="if standing.unreadable:",
        new="if False:",
        tests=["test_obstacles.py"],
    ),
    Mutant(
        breaks="the stop for a missing UPDATE",
        file="selection/findings.py",
        old="if is_locked_out or standing.unwritable.intersection(need.nulls):",
        new="if False:",
        tests=["test_obstacles.py"],
    ),
    Mutant(
        breaks="the stop for a schema that is closed",
        file="selection/findings.py",
        old="if not standing.may_enter:",
        new="if False:",
        tests=["test_obstacles.py"],
    ),
    Mutant(
        breaks="the stop for row level security",
        file="selection/findings.py",
        old="if standing.has_row_security:",
        new="if False:",
        tests=["test_obstacles.py"],
    ),
    Mutant(
        breaks="the stop for a trigger that is not listed",
        file="selection/findings.py",
        old="if not self._spellings(table, trigger).intersection(self.resolved.declared.triggers):",
        new="if False:",
        tests=["test_obstacles.py"],
    ),
    Mutant(
        breaks="the stop for rows of inheriting tables",
        file="selection/findings.py",
        old="if need.locks and need.table.inheritors:",
        new="if False:",
        tests=["test_catalogue.py"],
    ),
    Mutant(
        breaks="the stop for tables of Gandy itself",
        file="selection/findings.py",
        old="if table.name in self.schema.own_tables:",
        new="if False:",
        tests=["test_obstacles.py"],
    ),
    Mutant(
        breaks="the stop for partitions of another owner",
        file="selection/findings.py",
        old="if self.target.standing.owns:",
        new="if True:",
        tests=["test_obstacles.py"],
    ),
]

NUMBERS = [
    Mutant(
        breaks="the lower end of a unit's window",
        file="database/numbers.py",
        old="within = and_(column >= _whole(self.low), column <= _whole(bound))",
        new="within = and_(column <= _whole(bound))",
        tests=["test_unit_windows.py", "test_units.py"],
    ),
    Mutant(
        breaks="the search for a name of the row id that no column has",
        file="database/sqlite.py",
        old="if name not in taken)",
        new="if name)",
        tests=["test_row_ids.py"],
    ),
    Mutant(
        breaks="the upper end of a unit's window",
        file="database/numbers.py",
        old="        bound = min(self.number(instant), self.high)\n        within",
        new="        bound = self.number(instant)\n        within",
        tests=["test_unit_windows.py", "test_units.py"],
        may_survive="no clock is beyond 2100",
    ),
    Mutant(
        breaks="the days that no calendar has",
        file="database/numbers.py",
        old="return within if self.per_second is not None else and_(within, _is_day(column))",
        new="return within",
        tests=["test_unit_windows.py", "test_units.py"],
    ),
    Mutant(
        breaks="the day that is not over yet",
        file="database/numbers.py",
        old="return _day_number(instant.astimezone(UTC).date() - timedelta(days=1))",
        new="return _day_number(instant.astimezone(UTC).date())",
        tests=["test_unit_windows.py", "test_units.py"],
    ),
]

CONFIRMATION = [
    Mutant(
        breaks="what other rules take from the same table",
        file="supervisor/confirmation.py",
        old="together = [mine, *self._beside(walk, mine.table.name)]",
        new="together = [mine]",
        tests=["test_confirmation_sums.py"],
    ),
    Mutant(
        breaks="the question after a change of what selects rows",
        file="supervisor/confirmation.py",
        old="return agreement.may_take_more_than(Agreement.read(state.agreed))",
        new="return False",
        tests=["test_confirmation.py"],
    ),
    Mutant(
        breaks="the question where it cannot be counted in time",
        file="supervisor/confirmation.py",
        old="        except TimeoutError:\n            return Held(",
        new="        except TimeoutError:\n            return None and Held(",
        tests=["test_confirmation.py"],
    ),
]

JUDGING = (*HOLDS, *KEYS, *OBSTACLES, *NUMBERS, *CONFIRMATION)
