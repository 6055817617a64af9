"""Samples of a column, and cached answers about a database."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    func,
    literal,
    not_,
    or_,
    select,
    union_all,
)

from gandy.lifecycle.database.instants import (
    SEPARATORS,
    WINDOWS,
    Form,
    InstantKind,
    is_strange_text,
    is_text_instant,
    kind_of_number,
    separator_of,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sqlalchemy import Engine

    from gandy.lifecycle.database.facts import TableFacts


_EACH_END = 20
_EACH_UNIT = 3
_BY_KEY = 200
_WITHOUT_INDEX = 500
_SMALL = 10_000


def sample(connection: Connection, table: TableFacts, column: str) -> list[object]:
    """Return values that are not NULL; read once for each reading of the catalogue."""
    if column not in table.samples:
        table.samples[column] = _look(connection, table, column)
    return table.samples[column]


def _look(connection: Connection, table: TableFacts, column: str) -> list[object]:
    """Read the ends of the column if an index or a small table makes it cheap, else rows by key."""
    values = table.clause.c[column]
    filled = select(values.label("value")).where(values.is_not(None))
    if not table.has_index_on((column,)) and not _is_small(connection, table):
        keys = [table.clause.c[key.name] for key in table.key]
        oldest = filled.order_by(*(key.asc() for key in keys)).limit(_WITHOUT_INDEX)
        newest = filled.order_by(*(key.desc() for key in keys)).limit(_WITHOUT_INDEX)
        return _read(connection, oldest, newest)
    lowest = filled.order_by(values.asc()).limit(_EACH_END)
    ends = _read(connection, lowest, filled.order_by(values.desc()).limit(_EACH_END))
    if any(map(is_text_instant, ends)):
        is_one_form = len({form for value in ends if (form := _form_of(value)) is not None}) == 1
        # Undetected values between the ends are safe: predicates match only instants of the prevailing form.
        return ends if is_one_form else ends + _by_key(connection, table, values)
    kinds = {kind_of_number(value) for value in ends}
    if not kinds or (len(kinds) == 1 and None not in kinds):
        return ends  # every value between two values of one unit is of that unit
    between = _between(connection, filled)
    if any(isinstance(value, str | bytes) for value in ends) and not any(map(kind_of_number, between)):
        between += _texts_between(connection, filled)
    return ends + between


def _form_of(value: object) -> object:
    """Return how an instant is stored; None for any other value."""
    return separator_of(value) if is_text_instant(value) else kind_of_number(value)


def _by_key(connection: Connection, table: TableFacts, values: ColumnElement[Any]) -> list[object]:
    """Values of the first and last rows by key; NULLs count towards the limit, which bounds the read."""
    keys = [table.clause.c[key.name] for key in table.key]
    some = select(values.label("value")).limit(_BY_KEY)
    read = (some.order_by(*order).subquery() for order in (keys, [key.desc() for key in keys]))
    return _read(connection, *(select(part.c.value).where(part.c.value.is_not(None)) for part in read))


def _between(connection: Connection, filled: Select[Any]) -> list[object]:
    """The first few values of each unit: the ends of a column may all be placeholders."""
    values = filled.selected_columns[0]
    each = (
        filled.where(values >= literal(window.low, BigInteger), values <= literal(window.high, BigInteger))
        .order_by(values)
        .limit(_EACH_UNIT)
        for window in WINDOWS.values()
    )
    return _read(connection, *each)


def _texts_between(connection: Connection, filled: Select[Any]) -> list[object]:
    """The first and last few instants stored as text, if the ends of the column are words or blobs."""
    values = filled.selected_columns[0]
    forms = (Form(InstantKind.TEXT, separator) for separator in SEPARATORS)
    is_instant = or_(*(not_(is_strange_text(values, form)) for form in forms))
    found = filled.where(values >= literal("0"), values < literal(":"), is_instant)
    lowest = found.order_by(values.asc()).limit(_EACH_UNIT)
    return _read(connection, lowest, found.order_by(values.desc()).limit(_EACH_UNIT))


def _read(connection: Connection, *parts: Select[Any]) -> list[object]:
    found = union_all(*(select(part.subquery().c[0]) for part in parts))
    return list(connection.execute(found).scalars())


def _is_small(connection: Connection, table: TableFacts) -> bool:
    some = select(literal(1)).select_from(table.clause).limit(_SMALL + 1)
    return connection.execute(select(func.count()).select_from(some.subquery())).scalar_one() <= _SMALL


_MOST = 256


@dataclass(slots=True)
class Answers:
    """An LRU cache of answers; a key contains everything that its answer depends on."""

    _known: OrderedDict[Hashable, object] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def recall(self, question: Hashable) -> object:
        """Return the cached answer, or None."""
        with self._lock:
            if question in self._known:
                self._known.move_to_end(question)
            return self._known.get(question)

    def keep(self, question: Hashable, answer: object) -> None:
        """Cache an answer; it is valid for as long as the question stays the same."""
        with self._lock:
            self._known[question] = answer
            while len(self._known) > _MOST:
                self._known.popitem(last=False)


_ANSWERS: WeakKeyDictionary[Engine, Answers] = WeakKeyDictionary()


def learned_about(connection: Connection) -> Answers:
    """Return the cache for the database of this connection."""
    return _ANSWERS.setdefault(connection.engine, Answers())
