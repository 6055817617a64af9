"""EXPLAIN around a statement built with SQLAlchemy, so that no SQL is put together by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Executable
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ClauseElement

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler


class Explain(Executable, ClauseElement):
    """Asks how the database would run a statement; the statement is not run."""

    inherit_cache = False

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement


@compiles(Explain, "postgresql")
def _postgres(element: Explain, compiler: SQLCompiler, **options: object) -> str:
    return f"EXPLAIN (FORMAT JSON, VERBOSE) {compiler.process(element.statement, **options)}"


@compiles(Explain, "sqlite")
def _sqlite(element: Explain, compiler: SQLCompiler, **options: object) -> str:
    return f"EXPLAIN QUERY PLAN {compiler.process(element.statement, **options)}"
