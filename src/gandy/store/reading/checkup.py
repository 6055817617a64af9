"""Queries of `gandy doctor`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gandy.store.drivers.migrate import load_migrations
from gandy.store.statements import statement

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from gandy.model.owners import Owners
    from gandy.store.statements import Dialect, Operation, Rows


#: The limit of counts; a count at the limit is reported as "or more".
COUNTED: Final = 10_001
_NAMED: Final = 20
_INDEX: Final = re.compile(
    r"^(CREATE|DROP) (?:UNIQUE )?INDEX (?:IF (?:NOT )?EXISTS )?(?:gandy\.)?(ix_\w+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class IndexFaults:
    """Indexes of the schema that are missing or invalid."""

    missing: tuple[str, ...]
    invalid: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrokenReferences:
    """Rows whose reference to or from a run is broken."""

    stuck_manifests: Rows
    stray_runs: Rows


def expected_indexes(dialect: Dialect) -> frozenset[str]:
    """Read the expected indexes from the migrations."""
    names: set[str] = set()
    for migration in load_migrations(dialect):
        for verb, name in _INDEX.findall(migration.sql):
            (names.add if verb == "CREATE" else names.discard)(name)
    return frozenset(names)


def find_index_faults(dialect: Dialect) -> Operation[IndexFaults]:
    """Compare the existing indexes with the expected ones."""
    rows = yield statement("list_indexes")
    there = {row.name for row in rows}
    return IndexFaults(
        missing=tuple(sorted(expected_indexes(dialect) - there)),
        invalid=tuple(sorted(row.name for row in rows if not row.is_valid)),
    )


def read_journal_mode() -> Operation[str]:
    """Return the journal mode of the database."""
    mode: str = (yield statement("read_journal_mode"))[0].journal_mode
    return mode


def count_overdue_runs(grace: timedelta) -> Operation[tuple[int, datetime | None]]:
    """Count the runs past their retention, and return the date of the oldest."""
    rows = yield statement("count_overdue_runs", grace_seconds=grace.total_seconds(), limit=COUNTED)
    return rows[0].runs, rows[0].oldest_at


def count_held_trains(owners: Owners) -> Operation[Rows]:
    """Count the entries of trains that no live worker knows."""
    return (yield statement("count_held_trains", owner=owners.bound, limit=COUNTED))


def find_stalled_turns(owners: Owners) -> Operation[Rows]:
    """Find the manifests whose waiting entries would wait forever."""
    given = {"owner": owners.bound, "counted": COUNTED, "limit": _NAMED}
    waiting = yield statement("find_stalled_turns", **given)
    return waiting + (yield statement("find_stalled_orphans", **given))


def find_orphaned_parents(owners: Owners) -> Operation[Rows]:
    """Find dependents that are declared, on parents that are not."""
    return (yield statement("find_orphaned_parents", owner=owners.bound, limit=_NAMED))


def find_unheld_runs(owners: Owners) -> Operation[Rows]:
    """Find the runs in progress that no live worker holds."""
    return (yield statement("find_unheld_runs", owner=owners.bound, limit=COUNTED))


def count_letters_by_train(owners: Owners) -> Operation[Rows]:
    """Count the dead letters that await an operator, by train."""
    return (yield statement("count_letters_by_train", owner=owners.bound, limit=COUNTED))


def list_lost_letters(owners: Owners, *, window: timedelta) -> Operation[Rows]:
    """List recent failures whose dead letters were dropped because of the limit."""
    return (yield statement("list_lost_letters", owner=owners.bound, window_seconds=window.total_seconds()))


def find_broken_references(owners: Owners) -> Operation[BrokenReferences]:
    """Find manifests and live runs that do not refer to each other."""
    stuck = yield statement("find_stuck_manifests", owner=owners.bound, limit=_NAMED)
    stray = yield statement("find_stray_runs", owner=owners.bound, limit=_NAMED)
    return BrokenReferences(stuck, stray)
