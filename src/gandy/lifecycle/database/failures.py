"""The driver's error message, and statements about statements: plans and stored rows."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from sqlalchemy import Executable
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ClauseElement

if TYPE_CHECKING:
    from sqlalchemy import TableClause
    from sqlalchemy.sql.compiler import SQLCompiler


def said(error: Exception) -> str:
    """Return the driver's error message on one line."""
    return " ".join(str(original(error)).split())


def is_interrupted(error: Exception) -> bool:
    """Whether SQLite interrupted a statement because it took too long."""
    return getattr(original(error), "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT


def unexpected(error: Exception) -> str:
    """Format an unclassified error, with its type: the message alone is often not enough."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def original(error: Exception) -> BaseException:
    """Return the driver's error that SQLAlchemy wrapped."""
    wrapped = getattr(error, "orig", None)
    return wrapped if isinstance(wrapped, BaseException) else error


class Explain(Executable, ClauseElement):
    """EXPLAIN of a statement; the statement is not run."""

    inherit_cache = False

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement


class KeptRows(Executable, ClauseElement):
    """The rows of a statement, stored in a temporary table of the connection."""

    inherit_cache = False

    def __init__(self, place: TableClause, statement: ClauseElement) -> None:
        self.place = place
        self.statement = statement


@compiles(KeptRows, "sqlite")
def _kept(element: KeptRows, compiler: SQLCompiler, **options: object) -> str:
    name = compiler.preparer.quote(element.place.name)
    return f"CREATE TEMP TABLE {name} AS {compiler.process(element.statement, **options)}"


@compiles(Explain, "postgresql")
def _postgres(element: Explain, compiler: SQLCompiler, **options: object) -> str:
    return f"EXPLAIN (FORMAT JSON, VERBOSE) {compiler.process(element.statement, **options)}"


@compiles(Explain, "sqlite")
def _sqlite(element: Explain, compiler: SQLCompiler, **options: object) -> str:
    return f"EXPLAIN QUERY PLAN {compiler.process(element.statement, **options)}"
