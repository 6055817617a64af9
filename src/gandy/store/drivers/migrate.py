"""Schema migrations, and the check that schema and code are compatible."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from gandy.errors import CodeTooOldError, SchemaBehindError
from gandy.store.statements import Dialect, Operation, statement

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPATIBLE_FROM = re.compile(r"^-- compatible_from: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema."""

    version: int
    name: str
    compatible_from: int  # the oldest code that may keep running once this is applied
    sql: str


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema version of a database; 0: no tables of Gandy."""

    version: int
    compatible_from: int

    def pending(self, dialect: Dialect) -> tuple[Migration, ...]:
        """List the migrations that are not applied yet."""
        return tuple(migration for migration in load_migrations(dialect) if migration.version > self.version)


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The schema versions before and after, and the migrations applied."""

    before: int
    after: int
    applied: tuple[str, ...]


@cache
def load_migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """Read a dialect's migrations in their order."""
    folder = files("gandy.store").joinpath("migrations", dialect)
    found = [
        _parse(entry.name, entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    ]
    return tuple(sorted(found, key=lambda migration: migration.version))


def known_version(dialect: Dialect) -> int:
    """Return the newest schema version that this code knows."""
    return load_migrations(dialect)[-1].version


def read_state() -> Operation[SchemaState]:
    """Read the schema version of a database."""
    if not (yield statement("schema_exists"))[0].is_there:
        return SchemaState(0, 0)
    rows = yield statement("schema_version")
    return SchemaState(rows[0].version, rows[0].compatible_from) if rows else SchemaState(0, 0)


def verify(state: SchemaState, dialect: Dialect) -> None:
    """Refuse a schema that is older than this code, or newer and incompatible."""
    known = known_version(dialect)
    if state.compatible_from > known:
        raise CodeTooOldError(state.version, state.compatible_from, known)
    if state.version < known:
        raise SchemaBehindError(state.version, known)


def apply_pending(dialect: Dialect, apply_script: Callable[[str], None]) -> Operation[MigrationResult]:
    """Apply the pending migrations, inside the caller's transaction and lock."""
    state = yield from read_state()
    if state.compatible_from > known_version(dialect):
        raise CodeTooOldError(state.version, state.compatible_from, known_version(dialect))
    pending = state.pending(dialect)
    for migration in pending:
        apply_script(migration.sql)
        yield statement(
            "record_migration", version=migration.version, compatible_from=migration.compatible_from
        )
    after = pending[-1].version if pending else state.version
    return MigrationResult(state.version, after, tuple(migration.name for migration in pending))


def _parse(file_name: str, sql: str) -> Migration:
    found = _COMPATIBLE_FROM.search(sql)
    if found is None:
        raise ValueError(f"{file_name} has no compatible_from line")
    number, _, _ = file_name.partition("_")
    return Migration(int(number), file_name.removesuffix(".sql"), int(found[1]), sql)
