"""Progress and quarantine: the state of a sweep between ticks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    String,
    Text,
    Update,
    case,
    cast,
    delete,
    exists,
    func,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from gandy.lifecycle.database.numbers import decode_values, encode_values
from gandy.lifecycle.state.tables import (
    QUARANTINE,
    RULE,
    has_table,
    insert_or_replace,
    insert_or_set,
    stored_instant,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.sql.compiler import SQLCompiler


Cursor = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class RuleKey:
    """Identifies a rule by contract, table and rule."""

    scheduler: str
    table: str
    rule: str


@dataclass(frozen=True, slots=True)
class RememberedPace:
    """How a rule kept up between two ticks; the rates are known from the second tick on."""

    lag_seconds: float
    arriving_per_hour: float | None = None
    removed_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class RuleState:
    """The stored state of a rule."""

    shape: str
    accepted: int | None = None
    cutoff: datetime | None = None
    cursor: Cursor | None = None
    deleted: int = 0
    backlog: int = 0
    measured_at: datetime | None = None
    pace: RememberedPace | None = None
    held_rows: int | None = None
    agreed: str | None = None


def read_states(connection: Connection, scheduler: str) -> dict[RuleKey, RuleState]:
    """Read the states of a contract's rules; empty if there is no table for them."""
    return recall_states(connection, scheduler)[0] if has_table(connection, RULE) else {}


def recall_states(connection: Connection, scheduler: str) -> tuple[dict[RuleKey, RuleState], bool]:
    """Read the states of a contract's rules, and whether rows may be in quarantine."""
    is_quarantined = exists().where(QUARANTINE.c.scheduler == scheduler).label("is_quarantined")
    mine = _every_column().add_columns(is_quarantined).where(RULE.c.scheduler == scheduler)
    found = connection.execute(mine).all()
    states = {RuleKey(row.scheduler, row.table_name, row.rule): _state(row) for row in found}
    return states, not found or bool(found[0].is_quarantined)


def forget_rules(connection: Connection, keys: Iterable[RuleKey]) -> None:
    """Delete the states of rules that are no longer declared."""
    for key in keys:
        SweepProgress(key, "").forget(connection)


def _every_column() -> Select[Any]:
    """Select all existing columns: a plan also reads the table of an older version."""
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
        else RememberedPace(row.lag_seconds, row.arriving_per_hour, row.removed_per_hour),
        held_rows=row.held_rows,
        agreed=getattr(row, "agreed", None),
    )


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Stores the progress of one rule."""

    key: RuleKey
    shape: str

    def advance(self, connection: Connection, *, cutoff: datetime, cursor: Cursor | None) -> None:
        """Save the cursor in the batch's transaction, so that both are committed or neither is."""
        written = None if cursor is None else encode_values(cursor)
        connection.execute(self.advancing(cutoff, literal(written, String)))

    def advancing(self, cutoff: datetime, cursor: ColumnElement[Any]) -> Update:
        """Return the statement that saves; the rule's row exists since its retention was accepted."""
        return update(RULE).where(*self._mine()).values(cutoff=cutoff, cursor=cursor)

    def finish_pass(self, connection: Connection) -> None:
        """Clear the cursor: the next pass begins at the head."""
        connection.execute(update(RULE).where(*self._mine()).values(cursor=None, cutoff=None))

    def accept(self, connection: Connection, retention: int, agreed: str) -> None:
        """Store the confirmed retention and selection."""
        self._write(connection, {"accepted": retention, "agreed": agreed, "held_rows": None}, {})

    def hold(self, connection: Connection, rows: int) -> None:
        """Store that the rule waits for a confirmation."""
        self._write(connection, {"held_rows": rows}, {})

    def measure(
        self, connection: Connection, *, backlog: int, measured_at: datetime, rows: int, pace: RememberedPace
    ) -> None:
        """Store the deleted and remaining rows, from which the next tick computes arrivals."""
        values = {"backlog": backlog, "measured_at": measured_at, "deleted": rows, **asdict(pace)}
        self._write(connection, values, {"deleted": RULE.c.deleted + rows})

    def read(self, connection: Connection) -> RuleState | None:
        """Read the state of this rule."""
        found = connection.execute(_every_column().where(*self._mine())).one_or_none()
        return None if found is None else _state(found)

    def forget(self, connection: Connection) -> None:
        """Delete the state, such as when the rule's selection changed."""
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


_ROWS_IN_ONE_STATEMENT = 500


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """One row that could not be deleted, and the database's error."""

    scheduler: str
    table: str
    key: tuple[object, ...]
    rule: str
    error: str
    quarantined_at: datetime
    stored: str = ""  # the key in the database's text form


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row to quarantine, by its key in the database's text form."""

    scheduler: str
    table_name: str
    row_key: str
    rule: str
    error: str
    quarantined_at: datetime


class KeyText(FunctionElement[str]):
    """A row's key as a JSON array made by the database, which can parse the text of every type."""

    name = "gandy_key_text"
    type = Text()
    inherit_cache = True

    def __init__(self, columns: Sequence[ColumnElement[Any]]) -> None:
        super().__init__(*columns)


@compiles(KeyText, "postgresql")
def _key_text_on_postgresql(element: KeyText, compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401
    parts = [column if isinstance(column.type, Integer) else cast(column, Text) for column in element.clauses]
    return compiler.process(cast(func.jsonb_build_array(*parts), Text), **how)


@compiles(KeyText, "sqlite")
def _key_text_on_sqlite(element: KeyText, compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401
    """Write a blob as an SQL literal, since JSON has no blobs."""
    parts = [
        case((func.typeof(column) == "blob", func.quote(column)), else_=column) for column in element.clauses
    ]
    return compiler.process(func.json_array(*parts), **how)


def not_in_quarantine(key: Sequence[ColumnElement[Any]], scheduler: str, table: str) -> ColumnElement[bool]:
    """Return a condition: the row is not in quarantine. The subquery is uncorrelated and runs once."""
    there = select(QUARANTINE.c.row_key).where(
        QUARANTINE.c.scheduler == scheduler, QUARANTINE.c.table_name == table
    )
    return KeyText(key).not_in(there)


def put_in_quarantine(connection: Connection, rows: Sequence[Quarantined]) -> None:
    """Record rows; a repeated row gets the new error."""
    for start in range(0, len(rows), _ROWS_IN_ONE_STATEMENT):
        values = [asdict(row) for row in rows[start : start + _ROWS_IN_ONE_STATEMENT]]
        insert_or_replace(connection, QUARANTINE, values, changes=("rule", "error", "quarantined_at"))


def list_quarantine(
    connection: Connection, *, scheduler: str | None = None, table: str | None = None
) -> list[QuarantinedRow]:
    """Read the rows in quarantine by table and time; empty if there is no table for them."""
    return recall_quarantine(connection, scheduler, table) if has_table(connection, QUARANTINE) else []


def recall_quarantine(
    connection: Connection, scheduler: str | None, table: str | None = None
) -> list[QuarantinedRow]:
    """Read the rows in quarantine by table and time."""
    wanted = select(QUARANTINE).order_by(QUARANTINE.c.table_name, QUARANTINE.c.quarantined_at)
    if scheduler is not None:
        wanted = wanted.where(QUARANTINE.c.scheduler == scheduler)
    if table is not None:
        wanted = wanted.where(QUARANTINE.c.table_name == table)
    return [
        QuarantinedRow(
            scheduler=row.scheduler,
            table=row.table_name,
            key=decode_values(row.row_key),
            rule=row.rule,
            error=row.error,
            quarantined_at=row.quarantined_at,
            stored=row.row_key,
        )
        for row in connection.execute(wanted)
    ]


def release_rows(connection: Connection, rows: Sequence[QuarantinedRow]) -> int:
    """Let the next sweep try these rows again."""
    released = 0
    for row in rows:
        gone = connection.execute(
            delete(QUARANTINE).where(
                QUARANTINE.c.scheduler == row.scheduler,
                QUARANTINE.c.table_name == row.table,
                QUARANTINE.c.row_key == (row.stored or encode_values(row.key)),
            )
        )
        released += gone.rowcount
    return released
