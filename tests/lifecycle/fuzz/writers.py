"""Writers beside a sweep: they renew, hold, refer to and delete rows, and log what they committed."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from tests.lifecycle.fuzz.bench import Bench, named, quoted
from tests.lifecycle.fuzz.data import Filler, written
from tests.lifecycle.fuzz.judge import Judge
from tests.lifecycle.fuzz.shapes import INSTANTS, MARK, NOW, Link, Place, Row, Shape, TableShape, World
from tests.lifecycle.fuzz.verdict import Said, Verdict

if TYPE_CHECKING:
    from types import TracebackType

    from tests.lifecycle.fuzz.contracts import Contracts

FUTURE = NOW + timedelta(days=3_650)
_LOOKS = 40  # how often a writer looks whether the sweep waits for it, before it commits anyway
_WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"
_THREADS, _WRITES = 2, 5


@dataclass(frozen=True, slots=True)
class Written:
    """One committed transaction of a writer."""

    what: str
    place: Place
    row: Row | None = None
    parent: Place | None = None


@dataclass(slots=True)
class Writers:
    """Some threads that write while the block runs."""

    bench: Bench
    contracts: Contracts
    before: World
    chance: random.Random
    marks: int
    log: list[Written] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _errors: list[str] = field(default_factory=list)
    _started: threading.Barrier = field(default_factory=lambda: threading.Barrier(_THREADS + 1))
    _ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def idle(cls, bench: Bench, contracts: Contracts, before: World) -> Writers:
        """Writers that write nothing, for what is logged by hand."""
        return cls(bench, contracts, before, random.Random(0), marks=0)  # noqa: S311  # never asked

    @property
    def shape(self) -> Shape:
        """The schema."""
        return self.before.shape

    def __enter__(self) -> None:
        for number in range(_THREADS):
            orders = [self._order(number, step) for step in range(_WRITES)]
            thread = threading.Thread(target=self._write, args=([one for one in orders if one],), daemon=True)
            self._threads.append(thread)
            thread.start()
        self._started.wait(timeout=30)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=30)

    def _order(self, thread: int, step: int) -> Written | None:
        """What to write, decided beforehand so that chance is drawn in one thread."""
        places = sorted(self.before.places())
        if not places:
            return None
        place = self.chance.choice(places)
        what = self.chance.choice(("renew", "hold", "refer", "refer", "refer", "delete"))
        if what != "refer":
            return Written(what, place)
        links = [link for link in self.shape.into(place[0]) if link.has_key]
        if not links:
            return Written("renew", place)
        link = self.chance.choice(links)
        row = self._child(link, place, number=self.marks + 1 + thread * _WRITES + step)
        return None if row is None else Written("refer", (link.child, row[MARK]), row, place)

    def _child(self, link: Link, place: Place, *, number: int) -> Row | None:
        """A row that no rule takes by itself and that refers to a parent."""
        table = self.shape.table(link.child)
        row = Filler(self.chance, self.shape, NOW, marks=number - 1).row(table)
        row.update(_lively(table))
        parent = self.before.rows[place[0]][place[1]]
        row.update(
            {mine: parent[theirs] for mine, theirs in zip(link.columns, link.parent_columns, strict=True)}
        )
        is_whole = all(
            row[column.name] is not None or column.is_nullable for column in table.columns
        ) and all(row[name] is not None for name in link.columns)
        return row if is_whole else None

    def _write(self, orders: list[Written]) -> None:
        connection = self.bench.connect()
        watcher = self.bench.connect()
        try:
            self._started.wait(timeout=30)
            for order in orders:
                with suppress(psycopg.errors.IntegrityError, psycopg.errors.OperationalError):
                    self._perform(connection, watcher, order)
        except Exception as error:  # noqa: BLE001  # told by the thread that judges
            self._errors.append(f"writer: {error!r}")
        finally:
            connection.close()
            watcher.close()

    def _perform(self, connection: Any, watcher: Any, order: Written) -> None:  # noqa: ANN401  # the driver's
        """One transaction that is kept open until the sweep waits for it, or is over."""
        with connection.transaction():
            target = order.parent or order.place
            table = named(self.shape.table(target[0]))
            lock = "FOR KEY SHARE" if order.what == "refer" else "FOR UPDATE"
            found = connection.execute(f"SELECT mark FROM {table} WHERE mark = %s {lock}", [target[1]])  # noqa: S608
            if found.fetchone() is None or not self._change(connection, order):
                return
            for _ in range(_LOOKS):
                if self._ended.is_set() or watcher.execute(_WAITS).fetchone()[0]:
                    break
        self.log.append(order)

    def _change(self, connection: Any, order: Written) -> bool:  # noqa: ANN401  # the driver's
        table = self.shape.table(order.place[0])
        if order.what == "delete":
            if any(self.shape.into(table.label)):
                return False
            connection.execute(f"DELETE FROM {named(table)} WHERE mark = %s", [order.place[1]])  # noqa: S608
            return True
        if order.what == "refer":
            row = order.row or {}
            names, marks = ", ".join(map(quoted, row)), ", ".join(["%s"] * len(row))
            connection.execute(f"INSERT INTO {named(table)} ({names}) VALUES ({marks})", list(row.values()))  # noqa: S608
            return True
        values = _lively(table) if order.what == "renew" else self._held(table)
        if not values or (order.what == "renew" and self._frees_others(table.label)):
            return False
        changes = ", ".join(f"{quoted(name)} = %s" for name in values)
        statement = f"UPDATE {named(table)} SET {changes} WHERE mark = %s"  # noqa: S608
        connection.execute(statement, [*values.values(), order.place[1]])
        return True

    def _frees_others(self, label: str) -> bool:
        """Whether a renewed row would make others dead: those of its cap, or the cursors of its log."""
        logs = {
            self.contracts.beside(rule.entry["log"], rule.table)
            for rule in self.contracts.rules
            if rule.kind == "stale_cursor"
        }
        return label in logs or any(
            rule.kind in {"cap", "keep_last"} for rule in self.contracts.rules if rule.table == label
        )

    def _held(self, table: TableShape) -> Row:
        """The value that the table's holds ask for."""
        return {
            hold.column: _as_held(hold.equals, table, hold.column)
            for hold in self.contracts.holds_on(table.label)
        }

    def faults(self, after: World) -> list[str]:
        """Every row that went although a committed change protected it, or that no rule could take."""
        judge = self._judge()
        missing = judge.world.places() - after.places()
        deleted = {one.place for one in self.log if one.what == "delete"}
        faults = [
            f"row too many: {place} went beside writers" for place in missing - judge.may_go() - deleted
        ]
        for one in self.log:
            faults += [
                f"row too many: {place} went after {one}"
                for place in self._protected(one)
                if place in missing - deleted
            ]
        touched = frozenset(one.place for one in self.log)
        return [*self._errors, *faults, *Verdict(judge, after, Said()).changed(touched)]

    def _judge(self) -> Judge:
        """The rows at the start and those that were added; rows that writers deleted wait for nothing."""
        world = World(self.shape, {label: dict(rows) for label, rows in self.before.rows.items()})
        for one in self.log:
            if one.row is not None:
                world.rows[one.place[0]][one.place[1]] = one.row
        deleted = frozenset(one.place for one in self.log if one.what == "delete")
        return Judge(self.contracts, world, NOW, deleted)

    def _protected(self, one: Written) -> list[Place]:
        """The rows that a committed change keeps for certain."""
        if one.what == "hold":
            return [one.place]
        if one.what == "renew":
            return [one.place] if self._goes_by_age_alone(one.place[0]) else []
        if one.what == "refer" and one.parent is not None:
            child = [one.place] if self._goes_by_age_alone(one.place[0]) else []
            return child + ([one.parent] if self._is_awaited(one) else [])
        return []

    def _goes_by_age_alone(self, label: str) -> bool:
        """Whether no cap and no parent can take a row of the table that is not old."""
        rules = self.contracts.rules
        is_child = any(slot[0] == label for rule in rules for slot in rule.takes)
        return not is_child and all(
            rule.kind not in {"cap", "keep_last"} for rule in rules if rule.table == label
        )

    def _is_awaited(self, one: Written) -> bool:
        """Whether every rule of the parent's table waits for the reference, and no parent takes it along."""
        assert one.parent is not None
        label = one.parent[0]
        links = [
            link for link in self.shape.into(label) if link.child == one.place[0] and self._refers(link, one)
        ]
        rules = [rule for rule in self.contracts.rules if rule.table == label]
        is_child = any(slot[0] == label for rule in self.contracts.rules for slot in rule.takes)
        return (
            not is_child
            and self._goes_by_age_alone(one.place[0])
            and all(any(link.slot in rule.waits for link in links) for rule in rules)
        )

    def _refers(self, link: Link, one: Written) -> bool:
        assert one.parent is not None
        parent = self.before.rows[one.parent[0]][one.parent[1]]
        mine = [(one.row or {}).get(name) for name in link.columns]
        return mine == [parent[name] for name in link.parent_columns]


def _lively(table: TableShape) -> Row:
    """Values that no rule by age takes."""
    row: Row = {column.name: written(FUTURE, column.kind, "%Y-%m-%d") for column in table.of_kind(INSTANTS)}
    return {**row, "state": "open"}


def _as_held(equals: object, table: TableShape, column: str) -> object:
    kind = table.column(column).kind
    if kind == "flag_text":
        return "true" if equals else "false"
    return int(bool(equals)) if kind == "flag_int" else equals
