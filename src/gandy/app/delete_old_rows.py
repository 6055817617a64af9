"""`DeleteOldRows`: a train for tables without a contract, and its page of the reference."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta  # noqa: TC003 - the engine reads it at run time
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BeforeValidator

from gandy.app.opening import HostApp  # noqa: TC001 - the engine reads it at run time
from gandy.errors import DeclarationError, DurationFormatError, MissingVariableError
from gandy.lifecycle import Table, older_than
from gandy.lifecycle.contract.tables import MatrixRow, bound_of
from gandy.model.manifest import GroupDeclaration
from gandy.settings import parse_duration
from gandy.train.base import Train
from gandy.train.run import Run  # noqa: TC001 - the engine reads it at run time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.model.manifest import Declarations


DEFAULT_LIMIT: Final = 500
#: One such run at a time: two runs on the same table would only wait for each other.
GROUP: Final = GroupDeclaration(name="delete-old-rows", max_active_jobs=1)


def _as_span(value: object) -> object:
    """Parse a duration text; leave any other value to pydantic."""
    if not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except DurationFormatError:
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRows:
    """The input of DeleteOldRows: which rows are old, and how many of them a run deletes.

    The database is the application's own, or the one that the environment variable `database_env` names:
    inputs are stored, so they must not contain a URL with a password.
    """

    table: str
    column: str
    keep_for: Annotated[timedelta, BeforeValidator(_as_span)]
    limit: int = DEFAULT_LIMIT
    unit: str | None = None  #: of a numeric column: s or ms
    schema: str | None = None
    children: dict[str, str] = field(default_factory=dict)  #: "part.data_id": delete_first, cascade, set_null
    database_env: str | None = None
    triggers: list[str] = field(default_factory=list)  #: DELETE triggers that may fire

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise DeclarationError(self.table, f"limit must be at least 1, but is {self.limit}", what="table")
        self.bounded()

    def bounded(self) -> Table:
        """Convert to a rule of the lifecycle."""
        rule = older_than(self.column, keep_for=self.keep_for, unit=self.unit)
        return Table(self.table, [rule], schema=self.schema, children=self.children, triggers=self.triggers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The result of the deletion in one run."""

    rows: int
    children: dict[str, int]
    is_second_start: bool  #: another run is deleting from the table, so this run deleted nothing
    is_limit_reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRowsDeleted:
    """The number of deleted rows, and the job that continues."""

    deleted: int
    children: dict[str, int] = field(default_factory=dict)
    is_second_start: bool = False
    next_job: int | None = None


def delete(old: OldRows, run: Run, app: HostApp) -> Deleted:
    """Delete by keyset pagination, in short transactions, at most `limit` rows."""
    from gandy.lifecycle import SweepOptions  # noqa: PLC0415 - an extra
    from gandy.lifecycle.entry import delete_old_rows  # noqa: PLC0415 - an extra

    done = delete_old_rows(
        old.bounded(),
        _target(old, app),
        limit=old.limit,
        options=SweepOptions(
            is_stopping=lambda: run.cancel_requested,
            clock=app.clock,
            believed=None if app.trust is None else app.trust.believed,
        ),
    )
    return Deleted(
        rows=done.deleted,
        children=done.children,
        is_second_start=done.is_second_start,
        is_limit_reached=done.has_more,
    )


async def queue_next(  # noqa: PLR0917 - the engine passes them by type
    old: OldRows, done: Deleted, run: Run, app: HostApp
) -> OldRowsDeleted:
    """Queue another run if this one reached its limit."""
    next_job = await app.queue_again(run, old) if done.is_limit_reached else None
    return OldRowsDeleted(
        deleted=done.rows, children=done.children, is_second_start=done.is_second_start, next_job=next_job
    )


def _target(old: OldRows, app: HostApp) -> str:
    if old.database_env is None:
        return app.url
    url = os.environ.get(old.database_env)
    if not url:
        raise MissingVariableError(old.database_env, f"deletion of old rows of {old.table}")
    return url


class DeleteOldRows(Train[OldRows, OldRowsDeleted]):
    """Deletes rows that are older than `keep_for`, at most `limit` in a run.

        app.register(DeleteOldRows)
        old = OldRows(table="events", column="created_at", keep_for=timedelta(days=90))
        app.schedule("old-events", DeleteOldRows, old, cron("0 * * * *"))

    A run that reaches its limit queues the next run. A failed run is not retried: the next scheduled run
    deletes the remaining rows.
    """

    group = GROUP.name
    retry = False
    unique_until = "start"
    route = (delete, queue_next)


def old_rows_matrix(declarations: Declarations, database: str, *, home: str) -> Iterator[MatrixRow]:
    """Yield the tables that these manifests bound in this database (`home`: the app's own), if enabled."""
    definition = DeleteOldRows.definition
    for manifest in declarations.manifests:
        if manifest.train != definition.name or manifest.input_json is None or not manifest.is_enabled:
            continue
        old = definition.input.decode(manifest.input_json)
        if _database_of(old, home) != database:
            continue
        table = old.bounded()
        yield MatrixRow(
            scheduler=declarations.owner,
            table=table.label,
            bounded_by=bound_of(table),
            prune_path=f"{definition.name}, manifest {manifest.external_id}",
            safety="Only rows that are old enough.",
        )


def _database_of(old: OldRows, home: str) -> str | None:
    return home if old.database_env is None else os.environ.get(old.database_env)
