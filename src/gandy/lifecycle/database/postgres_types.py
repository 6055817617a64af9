"""PostgreSQL's column types as the lifecycle tells them apart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sqlalchemy.dialects import postgresql
from sqlalchemy.types import UserDefinedType

if TYPE_CHECKING:
    from gandy.lifecycle.database.facts import ColumnType

_PRECISION = re.compile(r"\(\d+(?:,-?\d+)?\)")
_TOLD_APART: Final[dict[str, ColumnType]] = {
    "smallint": postgresql.SMALLINT(),
    "integer": postgresql.INTEGER(),
    "bigint": postgresql.BIGINT(),
    "real": postgresql.REAL(),
    "double precision": postgresql.DOUBLE_PRECISION(),
    "numeric": postgresql.NUMERIC(),
    "boolean": postgresql.BOOLEAN(),
    "text": postgresql.TEXT(),
    "character varying": postgresql.VARCHAR(),
    "date": postgresql.DATE(),
    "timestamp with time zone": postgresql.TIMESTAMP(timezone=True),
    "timestamp without time zone": postgresql.TIMESTAMP(),
}


class Other(UserDefinedType[str]):
    """A type that only the database has to understand, by the name that it gives it."""

    cache_ok = True

    def __init__(self, spelled: str) -> None:
        self.spelled = spelled

    def get_col_spec(self, **_: object) -> str:
        """As the database spells it."""
        return self.spelled


def column_type(spelled: str) -> ColumnType:
    """The type that format_type writes this way."""
    known = _TOLD_APART.get(_PRECISION.sub("", spelled))
    return Other(spelled) if known is None else known
