"""Mutants of the driver: what locks, asks again, deletes and sets aside."""

from __future__ import annotations

from tests.lifecycle.mutants.mutant import Mutant

CAPS = [
    Mutant(
        breaks="the second look at a cap's bound",
        file="driver/caps.py",
        old="            bound = self._bound(connection, key.values)\n            if bound is None:\n"
        "                return None\n            if len(order)",
        new="            bound = key.bound\n            if bound is None:\n"
        "                return None\n            if len(order)",
        tests=["test_writers.py", "test_races.py"],
    ),
    Mutant(
        breaks="what waits and what is held, in caps",
        file="driver/caps.py",
        old="dead=and_(self._beyond(key, bound, order), *self.walk.guards),",
        new="dead=self._beyond(key, bound, order),",
        tests=["test_holds.py"],
    ),
    Mutant(
        breaks="the number of rows that a cap keeps",
        file="driver/caps.py",
        old="found = connection.execute(dated.offset(kept).limit(1)).one_or_none()",
        new="found = connection.execute(dated.offset(kept - 1).limit(1)).one_or_none()",
        tests=["test_rules.py"],
    ),
]

CHAINS = [
    Mutant(
        breaks="the end of a chain where a trigger may insert its rows again",
        file="driver/chains.py",
        old="if rows.table.standing.delete_triggers:",
        new="if False:",
        tests=["test_self_reference.py"],
    ),
]

LEASES = [
    Mutant(
        breaks="the token of a lease",
        file="state/lease.py",
        old="return LEASE.c.scheduler == self.scheduler, LEASE.c.token == self.token",
        new="return (LEASE.c.scheduler == self.scheduler,)",
        tests=["test_races.py"],
    ),
]

GROUNDS = [
    Mutant(
        breaks="the look at tables that changed while the sweep ran",
        file="driver/rows.py",
        old="and_(dialect.unchanged(tables), no_new_hold)",
        new="and_(no_new_hold)",
        tests=["test_changed_grounds.py"],
    ),
    Mutant(
        breaks="the look at holds that were recorded while the sweep ran",
        file="driver/rows.py",
        old="and_(dialect.unchanged(tables), no_new_hold)",
        new="and_(dialect.unchanged(tables))",
        tests=["test_changed_grounds.py"],
    ),
    Mutant(
        breaks="the lock that keys and triggers wait for",
        file="driver/shift.py",
        old="if self.grounds.emptied:",
        new="if False:",
        tests=["test_changed_grounds.py"],
    ),
    Mutant(
        breaks="the lock on children that keys and triggers wait for",
        file="driver/rows.py",
        old="emptied = [*_emptied(walk.children), walk.table]",
        new="emptied = [walk.table]",
        tests=["test_changed_grounds.py"],
    ),
    Mutant(
        breaks="the marks of children",
        file="driver/rows.py",
        old="    yield from _below(walk.children)\n",
        new="",
        tests=["test_changed_grounds.py"],
    ),
    Mutant(
        breaks="the look within the delete on PostgreSQL",
        file="driver/pipelined.py",
        old='lease.renewing(slot("until", Instant), unchanged)',
        new='lease.renewing(slot("until", Instant), literal(True))',
        tests=["test_changed_grounds.py"],
    ),
    Mutant(
        breaks="partitions and heirs in a mark",
        file="database/postgres_facts.py",
        old="UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN heir ON inhparent = heir.oid",
        new="",
        tests=["test_changed_grounds.py"],
    ),
]

LOCKS = [
    Mutant(
        breaks="the lock on the rows of a batch",
        file="driver/ages.py",
        old="return rows.only(found(connection, statement.with_for_update(of=self.selection.table.clause)))",
        new="return rows.only(found(connection, statement))",
        tests=["test_writers.py"],
    ),
    Mutant(
        breaks="the lock on what goes along",
        file="driver/levels.py",
        old="mine = mine.with_for_update(of=clause) if is_locking else mine",
        new="del is_locking",
        tests=["test_writers.py"],
    ),
    Mutant(
        breaks="the second question, after the locks",
        file="driver/ages.py",
        old="rows = locked.only(self.still_dead(connection, locked))",
        new="rows = locked",
        tests=["test_writers.py"],
    ),
    Mutant(
        breaks="the narrowing to what hangs on fewer parents",
        file="driver/ages.py",
        old="if len(rows) < len(locked):",
        new="if False:",
        tests=["test_writers.py", "test_holds.py"],
    ),
    Mutant(
        breaks="the rule that only locked rows go",
        file="driver/levels.py",
        old="if row in locked]",
        new="if row in locked or True]",
        tests=["test_writers.py"],
        may_survive="a lock on the parent keeps new children out, so there is none that is not locked",
    ),
    Mutant(
        breaks="what hangs on a child",
        file="driver/levels.py",
        old="return Level(child, locked, lock_levels(connection, locked, child.children, room=room))",
        new="return Level(child, locked)",
        tests=["test_children.py"],
    ),
    Mutant(
        breaks="the order in which references are cut",
        file="driver/levels.py",
        old="return sorted(levels, key=lambda level: level.child.mode is ChildMode.SET_NULL)",
        new="return list(levels)",
        tests=["test_children.py"],
    ),
    Mutant(
        breaks="the way to rows that an update has moved",
        file="driver/levels.py",
        old="        if not self.moved:\n            return rows",
        new="        if True:\n            return rows",
        tests=["test_children.py"],
    ),
    Mutant(
        breaks="the second walk for rows that a batch has moved",
        file="driver/ages.py",
        old="return is_moved_by_updates and not has_key and cuts_own_rows(walk.table, walk.children)",
        new="return False",
        tests=["test_many_children.py"],
    ),
    Mutant(
        breaks="the guarded lane",
        file="driver/ages.py",
        old="if guard.selection.is_guarded or guard.selection.table.may_keep_rows:",
        new="if False:",
        tests=["test_writers.py"],
    ),
    Mutant(
        breaks="the predicate in the delete of a batch",
        file="selection/statements.py",
        old="return and_(after(order, cursor), up_to(order, end), selection.dead)",
        new="return and_(after(order, cursor), up_to(order, end))",
        tests=["test_races.py"],
    ),
    Mutant(
        breaks="the predicate in the delete of rows that were read ahead",
        file="driver/lanes.py",
        old="return and_(self.listed.are(self.selection.table.clause), self.selection.dead)",
        new="return self.listed.are(self.selection.table.clause)",
        tests=["test_ties.py"],
    ),
    Mutant(
        breaks="the same on PostgreSQL",
        file="driver/pipelined.py",
        old='return self._deletion(and_(stored_at(clause, slot("places", UNTYPED)), self.selection.dead))',
        new='return self._deletion(stored_at(clause, slot("places", UNTYPED)))',
        tests=["test_ties.py"],
    ),
    Mutant(
        breaks="the lease in the delete on PostgreSQL",
        file="driver/pipelined.py",
        old="where(which, is_held)",
        new="where(which)",
        tests=["test_races.py"],
    ),
    Mutant(
        breaks="the end of a batch",
        file="selection/statements.py",
        old="return tuple_(*columns) <= tuple_(*_typed(columns, values))",
        new="return tuple_(*columns) >= tuple_(*_typed(columns, values))",
        tests=["test_rules.py"],
    ),
]

PARTS = [
    Mutant(
        breaks="the bound of a batch",
        file="driver/levels.py",
        old="        if self.left < 0:\n            raise BeyondBoundError(parents)",
        new="",
        tests=["test_many_children.py"],
    ),
    Mutant(
        breaks="the refusal of parts where the row may come back to life",
        file="driver/heavy.py",
        old="return walk.rule.is_final and not walk.rule.wait_for",
        new="return True",
        tests=["test_many_children.py"],
    ),
    Mutant(
        breaks="the question before each part",
        file="driver/heavy.py",
        old="if self._guard.still_dead(connection, row):",
        new="if True:",
        tests=["test_many_children.py"],
    ),
]

KEPT = [
    Mutant(
        breaks="the undoing where a trigger keeps a row",
        file="driver/levels.py",
        old="if rows < len(parents) and parents.table.may_keep_rows:",
        new="if False:",
        tests=["test_skipping_triggers.py"],
    ),
    Mutant(
        breaks="the undoing where a trigger keeps a row that hangs on another",
        file="driver/levels.py",
        old="if level.rows.table.may_keep_rows and self._is_any_left(level.rows):",
        new="if False:",
        tests=["test_skipping_triggers.py"],
    ),
]

QUARANTINE = [
    Mutant(
        breaks="the quarantine of rows that cannot go",
        file="driver/careful.py",
        old="self.quarantine(connection, doomed.rows, removed.refused)",
        new="del doomed",
        tests=["test_stubborn_rows.py"],
    ),
    Mutant(
        breaks="the checks at once, where they wait for the commit",
        file="driver/careful.py",
        old="if self.guard.has_locks:  # a deferred check at the commit would fail the whole batch",
        new="if False:",
        tests=["test_stubborn_rows.py", "test_children.py"],
    ),
    Mutant(
        breaks="the passing over of rows in quarantine",
        file="driver/ages.py",
        old="    is_free = not_in_quarantine(selection.key, rule.scheduler, rule.table)\n",
        new="    is_free = not_in_quarantine(selection.key, rule.scheduler, '')\n",
        tests=["test_stubborn_rows.py", "test_poison.py"],
    ),
]

DRIVING = (*CAPS, *CHAINS, *GROUNDS, *LEASES, *LOCKS, *PARTS, *KEPT, *QUARANTINE)
