"""Names of tables and columns: how a contract and SQL spell them, and which names are Gandy's own."""

from __future__ import annotations

import re
from dataclasses import dataclass

GANDY = "gandy"  # the schema of Gandy's own tables, and the scheduler label of their upkeep
STATE_PREFIX = "gandy_lifecycle_"  # of the tables that store the lifecycle's own state
#: Gandy's own tables; a test compares them with its migrations.
GANDY_TABLES = frozenset(
    {
        "audit",
        "audit_subject",
        "dead_letter",
        "history",
        "history_horizon",
        "history_piece",
        "log",
        "manifest",
        "manifest_edge",
        "manifest_former_edge",
        "manifest_group",
        "manifest_output",
        "metadata",
        "payload_layout",
        "run_rollup",
        "run_tally",
        "schema_version",
        "sequence",
        "service_state",
        "table_sample",
        "unique_key",
        "web_key",
        "work_queue",
        "worker",
    }
)
_PLAIN = re.compile("[a-z_][a-z0-9_$]*")
_TOKEN = re.compile(r'\s*(?:"((?:[^"]|"")+)"\s*(?=[.,]|$)|([^.,]+?)\s*(?=[.,]|$))([.,]|$)')
_SHAPE = re.compile(r"\.{1,2},*")


def is_state_table(name: str) -> bool:
    """Whether a table of this name stores the lifecycle's own state."""
    return name.casefold().startswith(STATE_PREFIX)


def quoted(name: str) -> str:
    """Quote a name for SQL; a plain name needs no quotes."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def spelled(table: tuple[str | None, str], columns: tuple[str, ...]) -> str:
    """Format a reference so that `split_reference` can parse it."""
    names = ".".join(_marked(part) for part in table if part is not None)
    return f"{names}.{','.join(map(_marked, columns))}"


def in_quotes(reference: object) -> str:
    """Quote a reference for a contract, in TOML or Python."""
    mark = "'" if '"' in str(reference) else '"'
    return f"{mark}{reference}{mark}"


def split_reference(text: str) -> tuple[str | None, str, tuple[str, ...]] | None:
    """Parse `table.column` or `schema.table.first,second` into schema, table and columns, or None.

    A name that contains a dot or a comma must be in double quotes.
    """
    found, position = [], 0
    while position < len(text) and (token := _TOKEN.match(text, position)) is not None:
        found.append(token)
        position = token.end()
    marks = "".join(token[3] for token in found)
    if position < len(text) or not _SHAPE.fullmatch(marks) or len(marks) != len(found) - 1:
        return None
    names = [token[1].replace('""', '"') if token[1] else token[2] for token in found]
    before, columns = names[: marks.count(".")], tuple(names[marks.count(".") :])
    return (before[0] if len(before) > 1 else None), before[-1], columns


def _marked(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if re.search('[.,]|^"', name) else name


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns of another table that are compared with rows of this one, or refer to them."""

    table: str
    columns: tuple[str, ...]
    schema: str | None = None

    def __str__(self) -> str:
        table = self.table if self.schema is None else f"{self.schema}.{self.table}"
        return f"{table}.{','.join(self.columns)}"
