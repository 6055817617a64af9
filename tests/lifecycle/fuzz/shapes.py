"""A schema as the generator made it: what the judge knows without asking any catalogue."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MARK = "mark"  # tells rows apart for the judge, whatever key the table has or lacks
NUMBERS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
INSTANTS = frozenset({"timestamptz", "timestamp", "date", "yyyymmdd", "iso", *NUMBERS})
DEFAULT_SCHEMA = "public"

Row = dict[str, Any]
Slot = tuple[str, tuple[str, ...]]  # a referring table and its columns
Place = tuple[str, int]  # a table and the mark of one row


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its kind decides the type, the values, and how the judge reads them."""

    name: str
    kind: str
    is_nullable: bool = True
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """One table; its label is unique in the database."""

    schema: str | None
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    has_rowid: bool = True
    trigger: str | None = None
    is_partitioned: bool = False

    @property
    def label(self) -> str:
        """The schema, where there are schemas, and the name."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    def column(self, name: str) -> Column:
        """The column of this name."""
        return next(column for column in self.columns if column.name == name)

    def of_kind(self, kinds: frozenset[str]) -> list[Column]:
        """The columns of these kinds."""
        return [column for column in self.columns if column.kind in kinds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Columns that refer to rows of a table: by a foreign key, or by convention alone."""

    child: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    has_key: bool = True
    action: str = "NO ACTION"
    set_columns: tuple[str, ...] = ()
    is_deferred: bool = False

    @property
    def slot(self) -> Slot:
        """What a contract names the reference by."""
        return self.child, self.columns

    @property
    def nulled(self) -> tuple[str, ...]:
        """The columns that become NULL when the reference is cut."""
        return self.set_columns or self.columns


@dataclass(frozen=True, slots=True)
class Limit:
    """What keeps the role that sweeps from a table: usage, select, delete, or security of its rows."""

    table: str
    what: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A whole database."""

    database: str
    tables: tuple[TableShape, ...]
    links: tuple[Link, ...]
    limit: Limit | None = None

    def table(self, label: str) -> TableShape:
        """The table of this label."""
        return next(table for table in self.tables if table.label == label)

    def into(self, label: str) -> Iterator[Link]:
        """Every reference to a table."""
        return (link for link in self.links if link.parent == label)


@dataclass(slots=True)
class World:
    """All rows of a database at one instant, by table and mark."""

    shape: Shape
    rows: dict[str, dict[int, Row]] = field(default_factory=dict)
    _referring: dict[Slot, dict[tuple[Any, ...], list[int]]] = field(default_factory=dict)

    def places(self) -> set[Place]:
        """Where rows are."""
        return {(label, mark) for label, rows in self.rows.items() for mark in rows}

    def referring(self, link: Link, place: Place) -> list[Place]:
        """The rows that refer to a row; a NULL in any column refers to nothing."""
        row = self.rows[place[0]][place[1]]
        wanted = tuple(row[name] for name in link.parent_columns)
        if None in wanted:
            return []
        if link.slot not in self._referring:
            self._referring[link.slot] = self._index(link)
        return [(link.child, mark) for mark in self._referring[link.slot].get(wanted, [])]

    def _index(self, link: Link) -> dict[tuple[Any, ...], list[int]]:
        found: dict[tuple[Any, ...], list[int]] = {}
        for mark, row in self.rows[link.child].items():
            found.setdefault(tuple(row[name] for name in link.columns), []).append(mark)
        return found


def ago(**span: float) -> datetime:
    """An instant before NOW."""
    return NOW - timedelta(**span)
