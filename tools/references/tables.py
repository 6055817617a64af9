"""The page on tables, from the migrations."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEGINNING: Final = """\
# Tables

<!-- Written by `python -m tools.references`; a test compares. -->

You may read these tables. Change nothing in them past Gandy: states change through the API, the command line
and the dashboard. On PostgreSQL they are in the schema `gandy`. On SQLite they have the same names and
columns without a schema; instants are text of the form `2026-01-05T12:00:00.000000Z`, truth values 0 and 1,
JSON is text.

A manifest and a group show the values in force: an operator's override over what the code declares.
[What bounds every table](maintenance.md) says how long rows are kept.
"""
_ABOUT: Final = {
    "schema_version": "Which migrations were applied.",
    "manifest_group": "Groups: a cap, a priority and a switch that manifests share.",
    "manifest": "Schedules, with everything that decides when they run next.",
    "manifest_edge": "Which manifest depends on which, and the ends of the parent that it has seen.",
    "manifest_former_edge": "What a dependent has seen of a parent that it no longer has, for a day.",
    "manifest_output": "The newest output of each manifest whose dependent takes it as its input.",
    "work_queue": "The intent to run: one row for every occurrence decided and every job asked for.",
    "metadata": "Runs, live and ended: one row for every attempt. A view of `history` and of the dispatched "
    "rows of `work_queue`. On PostgreSQL `bucket` is the day on which a run is dropped.",
    "history": "Ended runs, in partitions by day on PostgreSQL. Read `metadata`: it has live runs, too.",
    "log": "The lines that runs wrote, kept where the run is.",
    "history_horizon": "The days that have partitions (PostgreSQL only).",
    "history_piece": "The current piece of each day with several pieces (PostgreSQL only).",
    "dead_letter": "Jobs that wait for a person, and what became of them.",
    "worker": "Workers, with their leases.",
    "unique_key": "Which job holds a key, and until when.",
    "run_tally": "Statistics of ended runs that are not merged yet: a row for each worker, train, manifest "
    "and minute.",
    "run_rollup": "Statistics of ended runs: a row for each minute, hour and day of a train or manifest.",
    "table_sample": "Sizes of tables over time.",
    "audit": "Who did what, from which face.",
    "audit_subject": "What each entry of the trail is about: jobs, dead letters, manifests, groups, workers.",
    "service_state": "What services remember between cycles.",
    "payload_layout": "Which parts of inputs and outputs are secret: a row for each layout of a train's "
    "payloads.",
    "web_key": "Sessions of the dashboard and one-time codes. Grant it to the roles that serve the dashboard "
    "and to no other.",
}
_TABLE: Final = re.compile(
    r"^CREATE TABLE gandy\.(?P<name>\w+) \(\n(?P<body>.*?)^\)", re.DOTALL | re.MULTILINE
)
_ADDED: Final = re.compile(
    r"^ALTER TABLE gandy\.(?P<name>\w+)\s+ADD COLUMN (?P<column>.*?);(?P<note>.*)$", re.MULTILINE
)
_DROPPED: Final = re.compile(r"^ALTER TABLE gandy\.(?P<name>\w+) DROP COLUMN (?P<column>\w+);$", re.MULTILINE)
_COLUMN: Final = re.compile(
    r"(?P<name>[a-z_]+)\s+(?P<type>double precision|[a-z]+(?:\[\])?)(?P<rest>.*?),?(?:\s*--\s*(?P<note>.*))?"
)
_VIEW: Final = re.compile(
    r"^CREATE VIEW gandy\.(?P<name>\w+) AS\nSELECT (?P<columns>.*?)\nFROM", re.DOTALL | re.MULTILINE
)
_REPLACED: Final = re.compile(
    r"^ALTER TABLE gandy\.(?P<name>\w+) ADD CONSTRAINT \w+\s+"
    r"CHECK \((?P<column>\w+) (?P<check>IN \([^)]*\))\);$",
    re.MULTILINE,
)
_WORDS: Final = re.compile(r"IN \((?P<words>[^)]*)\)")


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as the page shows it."""

    name: str
    type: str
    note: str

    def __str__(self) -> str:
        return f"| `{self.name}` | {self.type} | {self.note} |"


def tables_page() -> str:
    """Write the page: every table with its columns."""
    return _BEGINNING + "".join(
        "\n".join(
            [
                "",
                f"## {name}",
                "",
                _ABOUT[name],
                "",
                "| column | type | |",
                "|---|---|---|",
                *map(str, columns),
                "",
            ]
        )
        for name, columns in read_tables().items()
    )


def read_tables() -> dict[str, list[Column]]:
    """Read the columns of every table out of the migrations for PostgreSQL."""
    folder = files("gandy.store").joinpath("migrations", "postgres")
    scripts = [
        file.read_text(encoding="utf-8") for file in sorted(folder.iterdir(), key=lambda file: file.name)
    ]
    tables = {
        found["name"]: list(_columns(found["body"])) for text in scripts for found in _TABLE.finditer(text)
    }
    for text in scripts:
        for found in _ADDED.finditer(text):
            tables[found["name"]] += _columns(f"    {found['column']},{found['note']}")
        for found in _DROPPED.finditer(text):
            tables[found["name"]] = [each for each in tables[found["name"]] if each.name != found["column"]]
        for found in _REPLACED.finditer(text):
            tables[found["name"]] = [_checked_by(found, each) for each in tables[found["name"]]]
        for found in _VIEW.finditer(text):
            if found["name"] in tables:  # the view replaces the table, under its name
                shown = {part.split()[-1] for part in found["columns"].split(",")}
                tables[found["name"]] = [each for each in tables[found["name"]] if each.name in shown]
    return tables


def _columns(body: str) -> Iterator[Column]:
    """Lines that are indented once begin a column or a constraint; what is indented deeper goes on."""
    for line in re.sub(r"\n {5,}", " ", body).splitlines():
        found = _COLUMN.fullmatch(line.strip())
        if found and not line.strip().startswith("--"):
            yield Column(found["name"], found["type"], _note(found["rest"], found["note"] or ""))


def _checked_by(found: re.Match[str], column: Column) -> Column:
    """The column with the words of a later constraint, if it is about this column."""
    if column.name != found["column"]:
        return column
    said = "; ".join(part for part in column.note.split("; ") if not part.startswith("`"))
    return replace(column, note=_note(found["check"], said))


def _note(rest: str, note: str) -> str:
    words = _WORDS.search(rest)
    said = [note] if note else []
    if words:
        said.append(", ".join(f"`{word}`" for word in re.findall(r"'(\w+)'", words["words"])))
    return "; ".join(said)
