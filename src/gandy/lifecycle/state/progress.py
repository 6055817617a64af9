"""How far each rule has come: its unfinished pass, what it deleted, what a person agreed to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    Update,
    delete,
    exists,
    literal,
    select,
    text,
    update,
)

from gandy.lifecycle.database.values import decode_values, encode_values
from gandy.lifecycle.state.tables import QUARANTINE, RULE, has_table, stored_instant
from gandy.lifecycle.state.upsert import insert_or_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

Cursor = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class RuleKey:
    """Which rule of which table of which contract."""

    scheduler: str
    table: str
    rule: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How a rule kept up between two ticks; the rates are known from the second one on."""

    lag_seconds: float
    arriving_per_hour: float | None = None
    removed_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class RuleState:
    """What is remembered about a rule."""

    shape: str
    accepted: int | None = None
    cutoff: datetime | None = None
    cursor: Cursor | None = None
    deleted: int = 0
    backlog: int = 0
    measured_at: datetime | None = None
    pace: Pace | None = None
    held_rows: int | None = None
    agreed: str | None = None


def read_states(connection: Connection, scheduler: str) -> dict[RuleKey, RuleState]:
    """Everything remembered about a contract's rules, as far as there are tables for it."""
    return recall_states(connection, scheduler)[0] if has_table(connection, RULE) else {}


def recall_states(connection: Connection, scheduler: str) -> tuple[dict[RuleKey, RuleState], bool]:
    """Everything remembered about a contract's rules, and whether rows may be in quarantine."""
    is_quarantined = exists().where(QUARANTINE.c.scheduler == scheduler).label("is_quarantined")
    mine = _every_column().add_columns(is_quarantined).where(RULE.c.scheduler == scheduler)
    found = connection.execute(mine).all()
    states = {RuleKey(row.scheduler, row.table_name, row.rule): _state(row) for row in found}
    return states, not found or bool(found[0].is_quarantined)


def forget_rules(connection: Connection, keys: Iterable[RuleKey]) -> None:
    """Drop what is remembered about rules that are declared no more."""
    for key in keys:
        Progress(key, "").forget(connection)


def _every_column() -> Select[Any]:
    """All columns that there are: a plan reads the table of an older version as it is."""
    return select(text("*")).select_from(RULE)


def _state(row: Row[Any]) -> RuleState:
    return RuleState(
        shape=row.shape,
        accepted=row.accepted,
        cutoff=stored_instant(row.cutoff),
        cursor=None if row.cursor is None else decode_values(row.cursor),
        deleted=row.deleted,
        backlog=row.backlog,
        measured_at=stored_instant(row.measured_at),
        pace=None
        if row.lag_seconds is None
        else Pace(row.lag_seconds, row.arriving_per_hour, row.removed_per_hour),
        held_rows=row.held_rows,
        agreed=getattr(row, "agreed", None),
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """Writes down the progress of one rule."""

    key: RuleKey
    shape: str

    def advance(self, connection: Connection, *, cutoff: datetime, cursor: Cursor | None) -> None:
        """Remember where the next batch goes on; called in the batch's own transaction."""
        written = None if cursor is None else encode_values(cursor)
        connection.execute(self.advancing(cutoff, literal(written, String)))

    def advancing(self, cutoff: datetime, cursor: ColumnElement[Any]) -> Update:
        """The statement that remembers; the rule's row is there since its retention was accepted."""
        return update(RULE).where(*self._mine()).values(cutoff=cutoff, cursor=cursor)

    def finish_pass(self, connection: Connection) -> None:
        """Forget the cursor: the next pass begins at the head."""
        connection.execute(update(RULE).where(*self._mine()).values(cursor=None, cutoff=None))

    def accept(self, connection: Connection, retention: int, agreed: str) -> None:
        """Remember the retention that was agreed to, and all else that selects the rows."""
        self._write(connection, {"accepted": retention, "agreed": agreed, "held_rows": None}, {})

    def hold(self, connection: Connection, rows: int) -> None:
        """Remember that a person has to agree first."""
        self._write(connection, {"held_rows": rows}, {})

    def measure(
        self, connection: Connection, *, backlog: int, measured_at: datetime, rows: int, pace: Pace
    ) -> None:
        """Remember what went and what was left over, so that the next tick can tell arrivals."""
        values = {"backlog": backlog, "measured_at": measured_at, "deleted": rows, **asdict(pace)}
        self._write(connection, values, {"deleted": RULE.c.deleted + rows})

    def read(self, connection: Connection) -> RuleState | None:
        """What is remembered about this rule."""
        found = connection.execute(_every_column().where(*self._mine())).one_or_none()
        return None if found is None else _state(found)

    def forget(self, connection: Connection) -> None:
        """Drop what was remembered: the rule selects differently now."""
        connection.execute(delete(RULE).where(*self._mine()))

    def _mine(self) -> tuple[ColumnElement[bool], ...]:
        return (
            RULE.c.scheduler == self.key.scheduler,
            RULE.c.table_name == self.key.table,
            RULE.c.rule == self.key.rule,
        )

    def _write(
        self, connection: Connection, values: Mapping[str, object], instead: Mapping[str, object]
    ) -> None:
        key = {"scheduler": self.key.scheduler, "table_name": self.key.table, "rule": self.key.rule}
        row = {**key, "shape": self.shape, "deleted": 0, "backlog": 0, **values}
        insert_or_set(connection, RULE, row, changes={"shape": self.shape, **values, **instead})
