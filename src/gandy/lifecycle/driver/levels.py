"""Dependent rows of a batch, level by level: lock, check again, and delete the lowest level first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

from sqlalchemy import (
    Connection,
    Delete,
    Select,
    Text,
    Update,
    cast,
    delete,
    func,
    literal,
    select,
    text,
    true,
    update,
)

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.selection.statements import Rows, equal, found, parents_of, readable, refers, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import ColumnElement

    from gandy.lifecycle.database.facts import TableFacts, TableName
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.selection.walks import Chain, Child, Columns


KEPT = "a trigger keeps a"
_KEPT = KEPT + " row of {table} that was deleted, without an error; triggers: {triggers}"
_AGAIN = KEPT + " row of {table}: it is inserted again when it is deleted; triggers: {triggers}"
_TOUCHED = KEPT + " row of {table}: it changes when rows that refer to it are deleted; triggers: {triggers}"
_UNCUT = (
    KEPT + " reference of {table} ({columns}) that was set to NULL, without an error; triggers: {triggers}"
)


@dataclass(frozen=True, slots=True)
class Level:
    """The children of some rows by one reference, and their own children; SET NULL deletes no row."""

    child: Child
    rows: Rows
    below: tuple[Level, ...] = ()


class BeyondBoundError(Exception):
    """These rows have more dependent rows than one batch may contain."""

    def __init__(self, parents: int) -> None:
        super().__init__(parents)
        self.parents = parents


class RowKeptError(Exception):
    """A trigger or rule silently kept a row that was deleted, or a reference that was set to NULL."""

    @classmethod
    def of(cls, rows: Rows) -> RowKeptError:
        """Make the error for rows of which one still exists after the delete."""
        triggers = ", ".join(
            trigger.name for trigger in rows.table.standing.delete_triggers if trigger.may_keep
        )
        return cls(_KEPT.format(table=rows.table.name, triggers=triggers))

    @classmethod
    def again(cls, table: TableFacts) -> RowKeptError:
        """Make the error for a row that was inserted again by its delete."""
        triggers = ", ".join(trigger.name for trigger in table.standing.delete_triggers)
        return cls(_AGAIN.format(table=table.name, triggers=triggers))

    @classmethod
    def touched(cls, rows: Rows, levels: Sequence[Level]) -> RowKeptError:
        """Make the error for rows of which one became live while its dependent rows were deleted."""
        return cls(_TOUCHED.format(table=rows.table.name, triggers=", ".join(sorted(_fired(levels)))))

    @classmethod
    def of_reference(cls, child: Child) -> RowKeptError:
        """Make the error for a reference that a trigger restored."""
        triggers = ", ".join(trigger.name for trigger in child.restorers)
        columns = ", ".join(child.columns)
        return cls(_UNCUT.format(table=child.table.name, columns=columns, triggers=triggers))


@dataclass(slots=True)
class Room:
    """How many more dependent rows one transaction may take; reads and locks stop one row beyond."""

    left: int

    def take(self, rows: int, *, parents: int) -> None:
        """Use up room; raise an error if there is not enough."""
        self.left -= rows
        if self.left < 0:
            raise BeyondBoundError(parents)


def lock_levels(
    connection: Connection, parents: Rows, children: Sequence[Child], *, room: Room
) -> tuple[Level, ...]:
    """Lock every dependent row, so that no child of a locked row can be added."""
    return tuple(_lock(connection, parents, child, room=room) for child in children)


def _lock(connection: Connection, parents: Rows, child: Child, *, room: Room) -> Level:
    rows = rows_of(child.table, has_locks=parents.has_locks)
    if child.mode is ChildMode.SET_NULL:
        room.take(_count_of(connection, child, parents, most=room.left + 1), parents=len(parents))
        return Level(child, rows)
    locked = rows.only(lock_some(connection, child, parents, most=room.left + 1))
    room.take(len(locked), parents=len(parents))
    return Level(child, locked, lock_levels(connection, locked, child.children, room=room))


def lock_some(connection: Connection, child: Child, parents: Rows, *, most: int) -> list[Values]:
    """Lock rows that refer to the parents, up to a limit."""
    rows = rows_of(child.table, has_locks=parents.has_locks)
    addresses: dict[Values, None] = {}
    for part in parents.parts():
        mine = _some_of(child, part, rows.columns(), most=most - len(addresses), is_locking=True)
        addresses.update(dict.fromkeys(found(connection, mine)))
    return list(addresses)


def _count_of(connection: Connection, child: Child, parents: Rows, *, most: int) -> int:
    """Count the rows that refer to the parents, up to a limit."""
    counted = 0
    for part in parents.parts():
        some = _some_of(child, part, (literal(1).label("one"),), most=most - counted)
        counted += connection.execute(select(func.count()).select_from(some.subquery())).scalar_one()
    return counted


def _some_of(
    child: Child, parents: Rows, columns: Columns, *, most: int, is_locking: bool = False
) -> Select[Any]:
    """Select rows that refer to the parents, up to a limit.

    With a limit, PostgreSQL prefers a low startup cost: it would merge the whole index of the reference
    with the parents. If there is such an index, a lateral join searches it for each parent instead.
    """
    clause = child.table.clause
    mine = select(*columns).select_from(clause).limit(most)
    mine = mine.with_for_update(of=clause) if is_locking else mine
    if not (parents.has_locks and child.table.has_index_on(child.columns)):
        return mine.where(refers(child, parents_of(child, parents)))
    above = parents_of(child, parents).subquery()
    pairs = zip(child.columns, child.parent_columns, strict=True)
    of_one = mine.where(*(clause.c[name] == above.c[theirs] for name, theirs in pairs)).lateral()
    return select(*of_one.c).select_from(above.join(of_one, true())).limit(most)


def referring(connection: Connection, rows: Rows, child: Child | Chain, *, parents: Rows) -> list[Values]:
    """Return the addresses of rows that refer to the parents; of a chain, those that the parents refer to."""
    addresses: dict[Values, None] = {}
    for part in parents.parts():
        mine = select(*rows.columns()).where(refers(child, parents_of(child, part)))
        addresses.update(dict.fromkeys(found(connection, mine)))
    return list(addresses)


def narrow_levels(connection: Connection, parents: Rows, levels: Sequence[Level]) -> tuple[Level, ...]:
    """Restrict the levels to rows that depend on these parents."""
    return tuple(_narrow(connection, parents, level) for level in levels)


def _narrow(connection: Connection, parents: Rows, level: Level) -> Level:
    if level.child.mode is ChildMode.SET_NULL:
        return level
    locked = set(level.rows.addresses)
    still = [row for row in referring(connection, level.rows, level.child, parents=parents) if row in locked]
    rows = level.rows.only(still)
    return replace(level, rows=rows, below=narrow_levels(connection, rows, level.below))


@dataclass(slots=True)
class Removal:
    """Deletes levels, the lowest first, and counts the deleted rows by table."""

    connection: Connection
    label: Callable[[TableName], str]
    gone: Counter[str]
    seen: set[tuple[TableName, Values]]
    moved: dict[Values, Values]  # current addresses of rows that an update moved
    first: dict[Values, Values]  # the reverse mapping

    def relocated(self, level: Level) -> Level:
        """Return the level with the current addresses of its rows."""
        below = tuple(map(self.relocated, level.below))
        return replace(level, rows=self.where_now(level.rows), below=below)

    def once_more(self) -> Removal:
        """Copy the removal for the next savepoint of the transaction, which may be rolled back."""
        return Removal(
            self.connection, self.label, Counter(), set(self.seen), dict(self.moved), dict(self.first)
        )

    @classmethod
    def on(cls, connection: Connection, label: Callable[[TableName], str]) -> Removal:
        """Start with no deleted rows."""
        return cls(connection, label, Counter(), set(), {}, {})

    def remove(
        self, parents: Rows, levels: Sequence[Level], *, still: ColumnElement[bool] | None = None
    ) -> int:
        """Delete or detach dependent rows, then delete the parents; return the number of deleted parents.

        If a trigger of dependent rows may change the parents, `still` selects those that are still dead.
        """
        self.seen |= {(parents.table.name, address) for address in parents.addresses}
        keys = {} if still is None else self._keys_of(parents)
        for level in cut_last(levels):
            self._settle(parents, level)
        rows = self._delete(parents, still)
        if rows < len(parents) and still is not None:
            rows += self._delete_moved(parents, keys, still)
            if rows < len(parents) and not parents.table.may_keep_rows:
                raise RowKeptError.touched(parents, levels)
        if rows < len(parents) and parents.table.may_keep_rows:
            raise RowKeptError.of(parents)
        for level in levels:
            if level.child.mode is ChildMode.CASCADE:
                self.must_be_gone(level)
        self.gone[self.label(parents.table.name)] += rows
        return rows

    def must_be_gone(self, level: Level) -> None:
        """Raise an error if a trigger kept a row that had to be deleted with its parent, at any depth."""
        if level.child.mode is ChildMode.SET_NULL:
            return
        for below in level.below:
            self.must_be_gone(below)
        if level.rows.table.may_keep_rows and self._is_any_left(level.rows):
            raise RowKeptError.of(level.rows)

    def _is_any_left(self, rows: Rows) -> bool:
        parts = self.where_now(rows).parts()
        return any(self.connection.execute(_any_of(part)).first() is not None for part in parts)

    def cut(self, child: Child, rows: Rows) -> int:
        """Set the references of these rows to NULL; return how many of them are NULL now."""
        clause, let_go = child.table.clause, 0
        cut = readable(tuple(clause.c[name] for name in child.nulled))
        for part in self.where_now(rows).parts():
            cutting = update(clause).where(part.are(clause)).values(dict.fromkeys(child.nulled))
            now = self.connection.execute(cutting.returning(*cut))
            let_go += sum(set(row) == {None} for row in now)  # a trigger may restore them
        return let_go

    def _settle(self, parents: Rows, level: Level) -> None:
        for below in cut_last(level.below):
            self._settle(level.rows, below)
        match level.child.mode:
            case ChildMode.DELETE_FIRST:
                self._count(level.rows, most=self._delete(level.rows))
                self.must_be_gone(level)  # before a foreign key fails with a less clear error
                if level.rows.table.standing.delete_triggers and self._is_referred_to(parents, level.child):
                    raise RowKeptError.again(level.rows.table)
            case ChildMode.CASCADE:
                self._count(level.rows, most=len(level.rows))
            case ChildMode.SET_NULL:
                for part in self.where_now(parents).parts():
                    self._let_go(level.child, part)
                if level.child.restorers and self._is_referred_to(parents, level.child):
                    raise RowKeptError.of_reference(level.child)
            case _:
                assert_never(level.child.mode)

    def _delete(self, rows: Rows, still: ColumnElement[bool] | None = None) -> int:
        parts = self.where_now(rows).parts()
        dead = true() if still is None else still
        return sum(self.connection.execute(delete_rows(part).where(dead)).rowcount for part in parts)

    def _keys_of(self, rows: Rows) -> dict[Values, Values]:
        """Return the keys of the rows by address; on PostgreSQL an update changes the address of a row."""
        if not rows.has_locks:
            return {}
        clause, key = rows.table.clause, _key_of(rows.table)
        width = len(rows.columns())
        return {
            tuple(row[:width]): tuple(row[width:])
            for part in self.where_now(rows).parts()
            for row in self.connection.execute(
                select(*part.columns(), *readable(key)).where(part.are(clause))
            )
        }

    def _delete_moved(self, rows: Rows, keys: Mapping[Values, Values], still: ColumnElement[bool]) -> int:
        """Delete moved rows that are still dead, one by one; rows already deleted are not found."""
        clause, key = rows.table.clause, _key_of(rows.table)
        return sum(
            self.connection.execute(delete(clause).where(equal(key, values), still)).rowcount
            for values in keys.values()
        )

    def _let_go(self, child: Child, parents: Rows) -> None:
        """Set references to NULL, and track new addresses: an updated row may be deleted itself later."""
        if not parents.has_locks:
            self.connection.execute(set_null(child, parents_of(child, parents)))
            return
        for *was, table, place in self.connection.execute(_telling_moves(child, parents)):
            self._move(tuple(was), (table, place))

    def _is_referred_to(self, parents: Rows, child: Child) -> bool:
        """Whether any row still refers to the parents."""
        if any(trigger.is_deferrable for trigger in child.restorers):
            self.connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        parts = self.where_now(parents).parts()
        left = (_some_of(child, part, (literal(1).label("one"),), most=1) for part in parts)
        return any(self.connection.execute(each).first() is not None for each in left)

    def _move(self, was: Values, now: Values) -> None:
        first = self.first.pop(was, was)
        self.moved[first], self.first[now] = now, first

    def where_now(self, rows: Rows) -> Rows:
        """Return the rows with their current addresses."""
        if not self.moved:
            return rows
        return rows.only([self.moved.get(address, address) for address in rows.addresses])

    def _count(self, rows: Rows, *, most: int) -> None:
        """Count deleted dependent rows; a row that is reached in two ways counts once."""
        reached = {(rows.table.name, address) for address in rows.addresses} - self.seen
        self.seen |= reached
        self.gone[self.label(rows.table.name)] += min(len(reached), most)


def may_touch(levels: Sequence[Level], table: TableFacts) -> bool:
    """Whether a trigger of dependent rows may change rows of the table during the deletion.

    False if the table depends on itself: a missing row may then have been deleted as a dependent row.
    """
    return any(_fired(levels)) and not any(table.name == name for name in _tables(levels))


def _fired(levels: Sequence[Level]) -> set[str]:
    """Return the triggers that fire when rows of these levels are deleted or detached."""
    fired = {str(trigger) for level in levels for trigger in level.child.restorers}
    for level in levels:
        if level.child.mode is not ChildMode.SET_NULL:
            fired |= {str(trigger) for trigger in level.rows.table.standing.delete_triggers}
            fired |= _fired(level.below)
    return fired


def _tables(levels: Sequence[Level]) -> set[TableName]:
    return {level.rows.table.name for level in levels}.union(*(_tables(level.below) for level in levels))


def _key_of(table: TableFacts) -> Columns:
    return tuple(table.clause.c[column.name] for column in table.key)


def may_keep_references(levels: Sequence[Level]) -> bool:
    """Whether a trigger may keep a reference that is set to NULL, at any depth."""
    return any(level.child.restorers or may_keep_references(level.below) for level in levels)


def cut_last(levels: Sequence[Level]) -> list[Level]:
    """Put SET NULL last: a row that goes by another reference may not be allowed to lose this one first."""
    return sorted(levels, key=lambda level: level.child.mode is ChildMode.SET_NULL)


def _any_of(rows: Rows) -> Select[Any]:
    clause = rows.table.clause
    return select(literal(1)).select_from(clause).where(rows.are(clause)).limit(1)


def delete_rows(rows: Rows) -> Delete:
    """Delete rows that are locked."""
    return delete(rows.table.clause).where(rows.are(rows.table.clause))


def _telling_moves(child: Child, parents: Rows) -> Update:
    """Set references to NULL on PostgreSQL, and return the old and the new address of each row."""
    clause = child.table.clause
    mine = select(clause.c["tableoid"], clause.c["ctid"]).where(refers(child, parents_of(child, parents)))
    was = mine.subquery()
    places = (was.c["tableoid"], was.c["ctid"], clause.c["tableoid"], clause.c["ctid"])
    return (
        update(clause)
        .where(clause.c["tableoid"] == was.c["tableoid"], clause.c["ctid"] == was.c["ctid"])
        .values(dict.fromkeys(child.nulled))
        .returning(*(cast(place, Text) for place in places))
    )


def set_null(child: Child, parents: Select[Any]) -> Update:
    """Set the references to the parents to NULL."""
    return update(child.table.clause).where(refers(child, parents)).values(dict.fromkeys(child.nulled))
