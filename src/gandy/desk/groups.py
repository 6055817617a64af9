"""Groups, workers and trains for operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import (
    datetime,
    timedelta,
)
from typing import TYPE_CHECKING

from gandy.desk.audit import shown
from gandy.errors import GroupNotFoundError, OverrideError, WorkerNotFoundError
from gandy.model.manifest import DEFAULT_GROUP
from gandy.settings.bounds import HIGHEST_COUNT, Timeout, problems_of
from gandy.store.audit import AuditRecord, record_audit
from gandy.store.overriding import override_group
from gandy.store.owners import owner_of_group
from gandy.store.queueing import trigger_group
from gandy.store.reading.views import COUNTED, list_groups, list_groups_of, list_members
from gandy.store.workers import drain_worker, list_workers
from gandy.train.failure import type_path
from gandy.train.route import type_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.model.owners import Operator, Owners
    from gandy.settings import RetrySettings
    from gandy.store.drivers.database import Database
    from gandy.store.queueing import Triggered
    from gandy.store.statements import Operation, Row, Rows
    from gandy.train.registry import AnyTrain, Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group with its counts; the values are those in force."""

    name: str
    owner: str
    max_active_jobs: int | None
    priority: int
    is_enabled: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    manifests: int
    has_more_manifests: bool  #: more than the counting limit of a listing
    active: int
    has_overrides: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanges:
    """New values of a group; None leaves a value unchanged."""

    max_active_jobs: int | None = None
    priority: int | None = None
    is_enabled: bool | None = None
    reason: str | None = None


class GroupDesk:
    """Reads and changes groups on behalf of an operator."""

    def __init__(self, database: Database, operator: Operator, *, owners: Owners) -> None:
        """Take the owners whose groups are visible."""
        self._database = database
        self._operator = operator
        self._owners = owners

    async def list(
        self, *, prefix: str = "", after: str = "", limit: int = 1_000
    ) -> tuple[GroupSummary, ...]:
        """List groups by name."""
        rows = await self._database.read(
            list_groups_of(self._owners, prefix=prefix, after=after, limit=limit)
        )
        return tuple(_summary(row) for row in rows)

    async def show(self, name: str) -> GroupSummary:
        """Show one group."""
        return await self._database.read(self._show(name))

    async def set(self, name: str, changes: GroupChanges) -> GroupSummary:
        """Override declared values until the overrides are cleared."""
        await self._override("set group", name, _values(name, changes), reason=changes.reason)
        return await self.show(name)

    async def reset(self, name: str) -> GroupSummary:
        """Clear every override."""
        await self._override("reset group", name, None)
        return await self.show(name)

    async def trigger(self, name: str) -> tuple[Triggered, ...]:
        """Queue every manifest of the group now."""

        def operation() -> Operation[tuple[Triggered, ...]]:
            owner = (yield from self._show(name)).owner
            triggered = yield from trigger_group(owner, name)
            detail = {"entries": len(triggered)}
            about = [each.id for each in triggered]
            audited = AuditRecord(
                owner=owner, action="trigger group", subject=name, detail=detail, about=about
            )
            yield from record_audit(self._operator, audited)
            return triggered

        return await self._database.run(operation())

    async def preview_trigger(self, name: str) -> tuple[str, ...]:
        """Return the external ids of the manifests that `trigger` would queue."""

        def operation() -> Operation[Rows]:
            owner = (yield from self._show(name)).owner
            return (yield from list_members(owner, name, limit=HIGHEST_COUNT))

        rows = await self._database.read(operation())
        return tuple(row.external_id for row in rows if row.orphaned_at is None)

    def _show(self, name: str) -> Operation[GroupSummary]:
        owner = yield from owner_of_group(self._owners, name)
        rows = yield from list_groups(owner, name=name)
        if not rows:
            raise GroupNotFoundError(owner, name)
        return _summary(rows[0])

    async def _override(
        self, action: str, name: str, values: Mapping[str, object] | None, *, reason: str | None = None
    ) -> None:
        def operation() -> Operation[None]:
            owner = yield from owner_of_group(self._owners, name)
            yield from override_group(owner, name, values, reason=reason)
            detail = {**(values or {}), **({"reason": reason} if reason else {})}
            audited = AuditRecord(owner=owner, action=action, subject=name, detail=detail)
            yield from record_audit(self._operator, audited)

        await self._database.run(operation())


def _values(name: str, changes: GroupChanges) -> dict[str, object]:
    if problems := problems_of(changes):
        raise OverrideError(name, "; ".join(problems))
    values = {
        "max_active_jobs": changes.max_active_jobs,
        "priority": changes.priority,
        "is_enabled": changes.is_enabled,
    }
    given: dict[str, object] = {key: value for key, value in values.items() if value is not None}
    if not given:
        raise OverrideError(name, "nothing to set; give at least one value")
    return given


def _summary(row: Row) -> GroupSummary:
    return shown(GroupSummary, row, has_more_manifests=row.manifests >= COUNTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSummary:
    """A worker; it is alive while its lease is valid."""

    id: str
    host: str
    pid: int
    version: str
    state: str
    is_alive: bool
    silent_for: timedelta  #: since its last heartbeat
    lease_left: timedelta | None  #: None once it has expired
    busy: int
    slots: int
    started_at: datetime
    last_seen_at: datetime
    longest_stall: timedelta
    stalled_junction: str | None
    trains: tuple[str, ...]
    owner: str


class WorkerDesk:
    """Reads and drains workers on behalf of an operator."""

    def __init__(self, database: Database, operator: Operator, *, owners: Owners) -> None:
        """Take the owners whose workers are visible."""
        self._database = database
        self._operator = operator
        self._owners = owners

    async def list(self, *, is_alive: bool | None = None, limit: int = 1_000) -> tuple[WorkerSummary, ...]:
        """List workers, the most recent heartbeat first."""
        rows = await self._database.read(list_workers(self._owners, limit=limit))
        return tuple(_worker_summary(row) for row in rows if is_alive is None or row.is_alive is is_alive)

    async def drain(self, worker_id: str) -> None:
        """Let a worker finish its runs and claim no more; it reads this with its next heartbeat."""
        await self._database.run(self._drain(worker_id))

    def _drain(self, worker_id: str) -> Operation[None]:
        owner = yield from drain_worker(worker_id, self._owners)
        if owner is None:
            raise WorkerNotFoundError(worker_id)
        yield from record_audit(
            self._operator, AuditRecord(owner=owner, action="drain worker", subject=worker_id)
        )


def _worker_summary(row: Row) -> WorkerSummary:
    lease_left = timedelta(seconds=row.lease_seconds)
    return shown(
        WorkerSummary,
        row,
        silent_for=timedelta(seconds=row.silent_seconds),
        lease_left=lease_left if row.is_alive else None,
        longest_stall=timedelta(seconds=row.longest_stall_seconds),
        trains=tuple(row.trains),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSummary:
    """A train as it was defined."""

    name: str
    input: str
    output: str
    junctions: tuple[str, ...]
    provided: tuple[str, ...]  #: the types of the provided values that it needs
    group: str
    priority: int | None
    timeout: Timeout | None
    max_retries: int
    retry: bool
    give_up_on: tuple[str, ...]  #: exceptions that park a job without a retry
    process: bool
    place: str


def list_trains(registry: Registry, retry: RetrySettings) -> tuple[TrainSummary, ...]:
    """List the trains by name; unset options have the values of the settings."""
    return tuple(_train_summary(registry.get(name), retry) for name in registry.names)


def _train_summary(train: AnyTrain, retry: RetrySettings) -> TrainSummary:
    options = train.options
    return TrainSummary(
        name=train.name,
        input=train.input_type_name,
        output=type_name(train.plan.output_key),
        junctions=tuple(step.name for step in train.plan.steps),
        provided=tuple(sorted({type_name(need.key) for need in train.plan.needs})),
        group=options.group or DEFAULT_GROUP,
        priority=options.priority,
        timeout=options.timeout,
        max_retries=retry.max_retries if options.max_retries is None else options.max_retries,
        retry=options.retry,
        give_up_on=tuple(type_path(kind) for kind in options.give_up_on),
        process=options.process,
        place=train.place,
    )
