"""In which order tables are swept: children before what waits for them, a log before its cursors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.lifecycle.contract.rules import DropPartition, Inline, Keep, Singleton, StaleCursor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gandy.lifecycle.contract.tables import Table


def sweep_order(tables: Sequence[Table], default_schema: str | None) -> list[Table]:
    """The declared order, but for tables that must come first; a circle keeps its declared order.

    A table that is declared without a schema is in the default one.
    """
    ordered: list[Table] = []
    visited: set[str] = set()

    def visit(table: Table) -> None:
        if table.label in visited:
            return
        visited.add(table.label)
        for schema, name in _first(table):
            for other in tables:
                if other.name == name and (other.schema or default_schema) == (schema or default_schema):
                    visit(other)
        ordered.append(table)

    for table in tables:
        visit(table)
    return ordered


def _first(table: Table) -> Iterator[tuple[str | None, str]]:
    for reference, _ in table.child_modes:
        yield reference.schema or table.schema, reference.table
    for rule in table.rules:
        if isinstance(rule, Singleton | Inline | Keep | DropPartition):
            continue
        yield from ((reference.schema or table.schema, reference.table) for reference in rule.wait_for)
        if isinstance(rule, StaleCursor):
            yield table.schema, rule.log
