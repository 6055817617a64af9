"""Check columns of numbers against their unit: a wrong unit deletes everything or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, ColumnElement, Connection, case, cast, func, literal, select

from gandy.lifecycle.database.instants import (
    Form,
    InstantKind,
    is_strange_text,
    is_text_instant,
    kind_of_number,
    kind_of_unit,
    unit_problem,
)
from gandy.lifecycle.database.sampling import sample
from gandy.lifecycle.selection.findings import Severity
from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, Columns, InlineWatch, PartitionWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gandy.lifecycle.contract.fields import Unit
    from gandy.lifecycle.database.facts import TableFacts
    from gandy.lifecycle.selection.resolve import Resolved

_COUNTED = 10_000
_LOOKED = 1_000


@dataclass(frozen=True, slots=True)
class _Instants:
    """A column of instants that a rule reads; `pinned` are conditions on the leading index columns."""

    table: TableFacts
    column: str
    form: Form
    unit: Unit | None
    pinned: Columns = ()

    @property
    def values(self) -> ColumnElement[object]:
        return self.table.clause.c[self.column]


@dataclass(frozen=True, slots=True)
class _TextEnd:
    """One end of a text column: values read, values that are not instants, and an example of these."""

    read: int
    kept: int
    odd: object


def advise_units(connection: Connection, resolved: Resolved, *, is_thorough: bool) -> None:
    """Add a finding for every column whose values do not match its declaration."""
    for instants in _instants(resolved):
        if instants.form.kind is InstantKind.NAIVE:
            _warn(resolved, f"{instants.column} has no time zone; it is read as UTC")
        if instants.form.is_number and not resolved.is_refused:
            _judge(connection, resolved, instants)
        if instants.form.kind is InstantKind.TEXT and not resolved.is_refused:
            samples = sample(connection, instants.table, instants.column)
            odd = [value for value in samples if not is_text_instant(value, instants.form)]
            if is_thorough or odd:
                _count_kept_texts(connection, resolved, instants, seen=odd)


def _instants(resolved: Resolved) -> Iterator[_Instants]:
    for walk in [*resolved.walks, resolved.watch]:
        match walk:
            case AgeWalk():
                pinned = walk.conditions[: len(walk.equals)]
                yield _Instants(walk.table, walk.instant, walk.form, walk.rule.unit, pinned=pinned)
            case InlineWatch():
                pinned = () if walk.rule.column is None else walk.conditions[:1]
                yield _Instants(walk.table, walk.instant, walk.form, walk.rule.unit, pinned=pinned)
            case PartitionWalk():
                yield _Instants(walk.table, walk.rule.column, walk.form, walk.rule.unit)
            case CapWalk() | None:
                continue


def _judge(connection: Connection, resolved: Resolved, instants: _Instants) -> None:
    samples = sample(connection, instants.table, instants.column)
    problem = unit_problem(samples, kind_of_unit(instants.unit))
    if problem is not None:
        resolved.note(
            Severity.REFUSED,
            f"{instants.column} {problem}",
            field="unit",
            remedy="Give the unit of its instants: s, ms, us, ns or yyyymmdd",
        )
        return
    if instants.form.kind is InstantKind.UNKNOWN:
        held = f"holds only placeholders such as {samples[0]}" if samples else "holds nothing yet"
        _warn(resolved, f"{instants.column} {held}, so its unit is unknown: the rule waits", field="unit")
    elif odd := [value for value in samples if kind_of_number(value) is not instants.form.kind]:
        _count_kept(connection, resolved, instants, odd=odd[0])


def _count_kept(connection: Connection, resolved: Resolved, instants: _Instants, *, odd: object) -> None:
    """Report how many rows stay because their number is not an instant of the unit."""
    kept = sum(_count(connection, instants, condition) for condition in _strange(instants))
    if kept:
        _warn(
            resolved,
            f"{'more than ' if kept > _COUNTED else ''}{min(kept, _COUNTED):,} rows are kept: their "
            f"{instants.column} (such as {odd}) is not an instant between 1990 and 2100 in "
            f"{instants.form.kind.value}",
            field="unit",
        )


def _count_kept_texts(
    connection: Connection, resolved: Resolved, instants: _Instants, *, seen: Sequence[object]
) -> None:
    """Report how many rows stay because their value is not an instant of the column's form.

    Only both ends of the column are read: such values collect there, since old instants are deleted.
    """
    low = _end_of_texts(connection, instants, instants.values.asc())
    is_all = low.read < _LOOKED
    high = _TextEnd(0, 0, None) if is_all else _end_of_texts(connection, instants, instants.values.desc())
    if kept := low.kept + high.kept or min(len(seen), 1):
        odd = low.odd if low.kept else high.odd if high.kept else seen[0]
        _warn(
            resolved,
            f"{'' if is_all else 'at least '}{kept:,} rows are kept: their {instants.column} (such as "
            f"{odd!r}) is not an instant in UTC in the form of the others",
        )


def _end_of_texts(connection: Connection, instants: _Instants, end: ColumnElement[object]) -> _TextEnd:
    values = instants.values
    filled = select(values.label("value"), is_strange_text(values, instants.form).label("is_strange"))
    looked = filled.where(*instants.pinned, values.is_not(None)).order_by(end).limit(_LOOKED).subquery()
    odd = case((looked.c.is_strange, looked.c.value))
    [read, kept, example] = connection.execute(select(func.count(), func.count(odd), func.max(odd))).one()
    return _TextEnd(read, kept, example)


def _strange(instants: _Instants) -> Iterator[ColumnElement[bool]]:
    """Yield conditions for non-instants below, above and inside the window; an index serves the first two."""
    window = instants.form.window
    if window is None:
        return
    values: ColumnElement[Any] = instants.values
    if instants.form.is_digits:
        values = cast(values, BigInteger)
    yield window.below(values)
    yield window.above(values)
    if window.has_gaps:
        yield window.in_a_gap(values)


def _count(connection: Connection, instants: _Instants, condition: ColumnElement[bool]) -> int:
    rows = select(literal(1)).select_from(instants.table.clause).where(*instants.pinned, condition)
    counted = select(func.count()).select_from(rows.limit(_COUNTED + 1).subquery())
    return int(connection.execute(counted).scalar_one())


def _warn(resolved: Resolved, message: str, *, field: str = "") -> None:
    """Warn once, even if several states of the rule read the same column."""
    if all(found.message != message for found in resolved.findings):
        resolved.note(Severity.WARNING, message, field=field)
