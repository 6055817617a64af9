"""Names of tables and columns: how a contract writes them, and which ones no contract may bound."""

from __future__ import annotations

import re

GANDY = "gandy"  # the schema of Gandy's own tables, and the scheduler that keeps them
STATE_PREFIX = "gandy_lifecycle_"  # of the tables in which the lifecycle keeps its state
#: Gandy's own tables; a test compares them with its migrations.
GANDY_TABLES = frozenset(
    {
        "audit",
        "dead_letter",
        "history_horizon",
        "log",
        "manifest",
        "manifest_group",
        "metadata",
        "payload_layout",
        "schema_version",
        "sequence",
        "service_state",
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
    """Whether the lifecycle itself keeps its state in a table of this name."""
    return name.casefold().startswith(STATE_PREFIX)


def quoted(name: str) -> str:
    """A name as a statement writes it; a plain one needs no quotes."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def spelled(table: tuple[str | None, str], columns: tuple[str, ...]) -> str:
    """A reference as `split_reference` reads it."""
    names = ".".join(_marked(part) for part in table if part is not None)
    return f"{names}.{','.join(map(_marked, columns))}"


def in_quotes(reference: object) -> str:
    """A reference as a contract writes it, in TOML as in Python."""
    mark = "'" if '"' in str(reference) else '"'
    return f"{mark}{reference}{mark}"


def split_reference(text: str) -> tuple[str | None, str, tuple[str, ...]] | None:
    """The schema, table and columns of `table.column`, `schema.table.first,second`; None where it is neither.

    A name that holds a dot or a comma stands in double quotes.
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
