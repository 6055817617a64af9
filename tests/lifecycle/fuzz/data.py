"""Random rows: ties, NULLs, infinities, values of other units, references that lead nowhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.lifecycle.fuzz.files import STATES
from tests.lifecycle.fuzz.shapes import INSTANTS, MARK, NUMBERS, Column, Link, Row, Shape, TableShape

if TYPE_CHECKING:
    import random

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EDGES = (timedelta(0), timedelta(hours=1), timedelta(days=1), timedelta(days=7), timedelta(days=30))
_BESIDE = (timedelta(microseconds=-1), timedelta(0), timedelta(microseconds=1), timedelta(seconds=3))
_FLAGS: dict[str, tuple[Any, ...]] = {
    "bool": (None, False, False, False, False, True),
    "flag_int": (None, 0, 0, 0, 0, 1),
    "flag_text": (None, "", "false", "F", "no", "off", "0", "n", "true", "yes", "T", "1"),
}
_ODD = (0, -1, 2**62, 20_260_101, 1_700_000_000, 1_700_000_000_000)
_ODD_TEXTS = ("", "soon", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01T00:00:00+05:00", "1577836800")


@dataclass(slots=True)
class Filler:
    """Makes the rows of one data set."""

    chance: random.Random
    shape: Shape
    now: datetime
    rows: dict[str, list[Row]] = field(default_factory=dict)
    marks: int = 0
    pool: list[datetime] = field(default_factory=list)
    is_odd: bool = False
    text_form: str = "%Y-%m-%dT%H:%M:%SZ"

    def __post_init__(self) -> None:
        self.pool = [self._instant() for _ in range(self.chance.randint(2, 12))]
        self.is_odd = self.chance.random() < 0.25
        self.text_form = self.chance.choice(
            ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f+00:00", "%Y-%m-%d")
        )

    def fill(self) -> dict[str, list[Row]]:
        """The rows of every table, with references that their keys accept."""
        for table in self.shape.tables:
            count = self.chance.choice((0, 1, 3, 8, 8, 15, 30))
            self.rows[table.label] = [self.row(table) for _ in range(count)]
        for link in self.shape.links:
            for row in self.rows[link.child]:
                self._refer(link, row)
        self._mend()
        return self.rows

    def row(self, table: TableShape) -> Row:
        """One row without references."""
        self.marks += 1
        links = {name for link in self.shape.links if link.child == table.label for name in link.columns}
        row: Row = {MARK: self.marks}
        for column in table.columns:
            if column.name != MARK:
                row[column.name] = None if column.name in links else self._value(column, table)
        return row

    def _value(self, column: Column, table: TableShape) -> Any:  # noqa: ANN401  # of whatever type
        if column.name in table.key or column.name in table.unique:
            return self._key(column)
        if column.kind in INSTANTS:
            return self._stored(column.kind)
        if column.kind in _FLAGS:
            return self.chance.choice(_FLAGS[column.kind])
        if column.kind == "state":
            return self.chance.choice((*STATES, None))
        return self.chance.choice((None, 0, 1, 1, 2, 3))

    def _key(self, column: Column) -> Any:  # noqa: ANN401  # of whatever type
        if column.is_nullable and self.chance.random() < 0.08:
            return None
        match column.kind:
            case "text":
                return f"k{self.marks}"
            case "uuid":
                return str(UUID(int=self.chance.getrandbits(128)))
            case _:
                return self.marks if column.name != "k0" or self.chance.random() < 0.9 else -self.marks

    def _instant(self) -> datetime:
        if self.chance.random() < 0.3:
            return self.now - self.chance.choice(_EDGES) + self.chance.choice(_BESIDE)
        return self.now + timedelta(hours=self.chance.uniform(-2_400, 400))

    def _stored(self, kind: str) -> Any:  # noqa: ANN401  # of whatever type
        pick = self.chance.random()
        if pick < 0.1:
            return None
        if self.is_odd and pick < 0.2:
            return self._odd(kind)
        return written(self.chance.choice(self.pool), kind, self.text_form)

    def _odd(self, kind: str) -> Any:  # noqa: ANN401  # of whatever type
        if kind in {*NUMBERS, "yyyymmdd"}:
            return self.chance.choice(_ODD)
        if kind == "iso":
            return self.chance.choice(_ODD_TEXTS)
        return self.chance.choice(("infinity", "-infinity"))

    def _refer(self, link: Link, row: Row) -> None:
        """Point a row at a parent; a NULL or, without a key, nothing at all are possible too."""
        child = self.shape.table(link.child)
        can_be_null = all(child.column(name).is_nullable for name in link.columns)
        parents = self._parents(link)
        if can_be_null and self.chance.random() < 0.3:
            return
        if not link.has_key and self.chance.random() < 0.2:
            row.update({name: self._key(Column(name, child.column(name).kind)) for name in link.columns})
        elif parents:
            row.update(zip(link.columns, self.chance.choice(parents), strict=True))
            nullable = [name for name in link.columns if child.column(name).is_nullable]
            if len(link.columns) > 1 and nullable and self.chance.random() < 0.15:
                row[nullable[0]] = None

    def _parents(self, link: Link) -> list[tuple[Any, ...]]:
        found = [tuple(row[name] for name in link.parent_columns) for row in self.rows[link.parent]]
        return [values for values in found if None not in values]

    def _mend(self) -> None:
        """Drop rows whose required references point nowhere, and those that point at them."""
        is_whole = False
        while not is_whole:
            is_whole = sum(self._mend_link(link) for link in self.shape.links) == len(self.shape.links)

    def _mend_link(self, link: Link) -> bool:
        child, parents = self.shape.table(link.child), set(self._parents(link))
        required = [name for name in link.columns if not child.column(name).is_nullable]
        kept = []
        for row in self.rows[link.child]:
            values = tuple(row[name] for name in link.columns)
            is_broken = any(row[name] is None for name in required)
            if not is_broken and link.has_key and None not in values and values not in parents:
                is_broken = bool(required)
                row.update(dict.fromkeys(link.columns) if not required else {})
            if not is_broken:
                kept.append(row)
        is_whole = len(kept) == len(self.rows[link.child])
        self.rows[link.child] = kept
        return is_whole


def written(instant: datetime, kind: str, text_form: str) -> Any:  # noqa: ANN401  # of whatever type
    """An instant as a column of this kind stores it."""
    if kind in NUMBERS:
        return (instant - _EPOCH) // timedelta(microseconds=1) * NUMBERS[kind] // 1_000_000
    if kind == "yyyymmdd":
        return int(instant.strftime("%Y%m%d"))
    if kind == "date":
        return instant.strftime("%Y-%m-%d")
    if kind == "iso":
        return instant.strftime(text_form)
    if kind == "timestamp":
        return instant.replace(tzinfo=None).isoformat()
    return instant.isoformat()
