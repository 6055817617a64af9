"""Read and change manifests; the change and its audit entry share one transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from gandy.desk.audit import Listed, shown
from gandy.desk.declarations import (
    NOT_GIVEN,
    check_passed,
    declare,
    filled_in,
    placed,
    schedule_options,
    unknown_train,
)
from gandy.desk.runs import edited_input
from gandy.desk.schedules import ManifestChanges, override_values
from gandy.model.schedule import Edge, EdgeKind, ScheduleColumns, edges_from_json
from gandy.rules.schedules import describe
from gandy.settings.bounds import Timeout, as_span, as_timeout, check
from gandy.store.audit import AuditRecord, record_audit
from gandy.store.overriding import override_manifest
from gandy.store.owners import owner_of_group, owner_of_manifest, single_owner
from gandy.store.queueing import lock_manifest, remove_manifest, trigger
from gandy.store.reading.views import list_manifests_of, list_members, picture_of
from gandy.store.seeding import add_manifest
from gandy.work.layouts import layouts_for, record_known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gandy.desk.schedules import NewManifest
    from gandy.model.layout import Layouts
    from gandy.model.manifest import ManifestDeclaration
    from gandy.model.owners import Operator, Owners
    from gandy.settings import Settings
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.queueing import RemovedManifest, Triggered
    from gandy.store.reading.views import ManifestFilter, ManifestPicture
    from gandy.store.statements import Operation, Row, Rows
    from gandy.train.registry import Registry

T = TypeVar("T")
Json: TypeAlias = Any  # an application's types as JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSummary:
    """A manifest in a listing."""

    external_id: str
    train: str
    group: str
    schedule: str
    state: str
    next_scheduled_run: datetime | None
    last_successful_run: datetime | None
    failure_count: int
    success_count: int
    priority: int
    has_overrides: bool
    dead_letter_id: int | None  #: it is parked until this letter is resolved
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDetail:
    """All stored values of a manifest; overrides are applied."""

    external_id: str
    train: str
    owner: str
    origin: str
    group: str
    batch: str | None
    schedule: str
    state: str
    input: Json
    priority: int
    max_retries: int
    retry: bool
    retry_delay: timedelta | None
    timeout: Timeout | None
    variance: timedelta
    exclusions: Json
    misfire_policy: str
    misfire_threshold: timedelta
    keep_for: timedelta | None
    keep_last: int | None
    next_scheduled_run: datetime | None
    last_successful_run: datetime | None
    completed_at: datetime | None
    failure_count: int
    success_count: int
    active_run_id: int | None
    last_run_id: int | None
    waiting_entry_id: int | None
    waiting_entries: int  #: waiting behind that entry; counted up to 10,001
    dead_letter_id: int | None
    parent: str | None  #: of several, the first one
    after: tuple[str, ...]  #: all parents
    on: str | None  #: which of their ends it follows: success, failure, end, or an activation
    pass_output: bool  #: the parent's output is its input
    dependents: tuple[str, ...]
    disabled_reason: str | None
    orphaned_at: datetime | None
    overrides: Json


class ManifestDesk:
    """Reads and changes manifests on behalf of an operator."""

    def __init__(
        self,
        database: ReadingRunner,
        operator: Operator,
        *,
        owners: Owners,
        registry: Registry | None = None,
    ) -> None:
        """Take the owners whose manifests are visible, and the trains that check inputs."""
        self._database = database
        self._operator = operator
        self._owners = owners
        self._registry = registry

    async def list(self, wanted: ManifestFilter) -> Listed[ManifestSummary]:
        """List manifests by external id."""
        return Listed.of(await self._database.read(list_manifests_of(wanted, self._owners)), _summary)

    async def members(self, group: str, *, limit: int) -> tuple[ManifestSummary, ...]:
        """List the first manifests of a group."""

        def operation() -> Operation[Rows]:
            owner = yield from owner_of_group(self._owners, group)
            return (yield from list_members(owner, group, limit=limit))

        rows = await self._database.read(operation())
        return tuple(_summary(row) for row in rows)

    async def show(self, external_id: str) -> ManifestDetail:
        """Show one manifest."""
        return await self._database.read(self._show(external_id))

    async def trigger(
        self, external_id: str, *, delay: timedelta = timedelta(0), input_json: str | None = None
    ) -> Triggered:
        """Queue it now or later, enabled or not; the input is checked if the train is known."""
        check("delay", delay)
        detail = {"delay": delay.total_seconds(), "has_input": input_json is not None}

        def operation() -> Operation[Triggered]:
            owner = yield from owner_of_manifest(self._owners, external_id)
            manifest = yield from lock_manifest(external_id, owner=owner)
            text = input_json
            if text is not None:
                kept = {"given": text, "stored": manifest.properties}
                text = yield from edited_input(self._registry, owner, manifest.train, **kept)
            triggered = yield from trigger(external_id, owner=owner, delay=delay, input_json=text)
            audited = AuditRecord(
                owner=owner,
                action="trigger manifest",
                subject=external_id,
                detail=detail,
                about=[triggered.id],
            )
            yield from record_audit(self._operator, audited)
            return triggered

        return await self._database.run(operation())

    async def add(self, new: NewManifest, settings: Settings) -> ManifestDetail:
        """Make a manifest, or change one that was made at run time; no deploy prunes it."""
        owner = single_owner(self._owners)

        def operation() -> Operation[None]:
            declaration = yield from self._declared(owner, new)
            yield from record_known(owner, self._registry, new.train)
            added = yield from add_manifest(owner, filled_in(declaration, settings))
            detail = {"train": new.train, "is_new": bool(added.created)}
            audited = AuditRecord(owner=owner, action="add manifest", subject=new.external_id, detail=detail)
            yield from record_audit(self._operator, audited)

        await self._database.run(operation())
        return await self.show(new.external_id)

    def _declared(self, owner: str, new: NewManifest) -> Operation[ManifestDeclaration]:
        """Check it like a declaration in code; without a registry, any JSON is accepted as the input."""
        train = unknown_train(new.train) if self._registry is None else self._registry.get(new.train)
        schedule = placed(new.external_id, new.schedule, new.place)
        value: object = NOT_GIVEN
        if new.input_json is not None:
            text = yield from edited_input(
                self._registry, owner, new.train, given=new.input_json, stored=None
            )
            value = train.input.decode(text)
        options = schedule_options(new.options)
        declaration = declare(new.external_id, train, schedule, input=value, options=options)
        yield from check_passed(owner, self._registry, declaration)
        return declaration

    async def set(self, external_id: str, changes: ManifestChanges) -> ManifestDetail:
        """Override declared values until the overrides are cleared."""
        values = override_values(changes)
        await self._override(
            "set manifest", external_id, values, input_json=changes.input_json, next_at=changes.next_at
        )
        return await self.show(external_id)

    async def reset(self, external_id: str) -> ManifestDetail:
        """Clear every override, including a pause."""
        await self._override("reset manifest", external_id, None)
        return await self.show(external_id)

    async def enable(self, external_id: str) -> ManifestDetail:
        """Enable it; instants that passed while it was disabled get one verdict."""
        await self._override("enable manifest", external_id, {"is_enabled": True})
        return await self.show(external_id)

    async def disable(self, external_id: str, reason: str | None = None) -> ManifestDetail:
        """Disable it; a deploy does not enable it again."""
        if reason is not None:
            check("reason", reason)
        await self._override("disable manifest", external_id, {"is_enabled": False}, reason=reason)
        return await self.show(external_id)

    async def delete(self, external_id: str) -> RemovedManifest:
        """Delete it; the result is false if a run is in progress: it is then deleted when that run ends."""

        def operation() -> Operation[RemovedManifest]:
            owner = yield from owner_of_manifest(self._owners, external_id)
            removal = yield from remove_manifest(external_id, owner=owner)
            detail = {"cancelled_entries": removal.cancelled_entries}
            audited = AuditRecord(owner=owner, action="delete manifest", subject=external_id, detail=detail)
            yield from record_audit(self._operator, audited)
            return removal

        return await self._database.run(operation())

    async def _override(
        self,
        action: str,
        external_id: str,
        values: Mapping[str, object] | None,
        *,
        reason: str | None = None,
        input_json: str | None = None,
        next_at: datetime | None = None,
    ) -> None:
        def operation() -> Operation[None]:
            owner = yield from owner_of_manifest(self._owners, external_id)
            edited = values
            if input_json is not None:
                row = (yield from picture_of(external_id, self._owners)).row
                kept = {"given": input_json, "stored": row.properties}
                text = yield from edited_input(self._registry, owner, row.name, **kept)
                edited = {**(values or {}), "input": json.loads(text)}
            yield from override_manifest(external_id, edited, owner=owner, reason=reason, next_at=next_at)
            # An input may contain a secret: the audit trail records only that it was set.
            told = {key: "set" if key == "input" else value for key, value in (values or {}).items()}
            if next_at is not None:
                told["next"] = next_at.isoformat()
            detail = {**told, **({"reason": reason} if reason else {})}
            audited = AuditRecord(owner=owner, action=action, subject=external_id, detail=detail)
            yield from record_audit(self._operator, audited)

        await self._database.run(operation())

    def _show(self, external_id: str) -> Operation[ManifestDetail]:
        picture = yield from picture_of(external_id, self._owners)
        layouts = yield from layouts_for(self._registry, picture.row.owner, picture.row.name)
        return _detail(picture, layouts.input)


def _detail(picture: ManifestPicture, layouts: Layouts) -> ManifestDetail:
    row, edges = picture.row, edges_in(picture)
    return shown(
        ManifestDetail,
        row,
        train=row.name,
        group=row.group_name,
        schedule=describe_schedule(row, edges),
        state=describe_state(row, is_active=row.active_run_id is not None),
        input=layouts.shown(row.properties),
        retry=row.is_retried,
        retry_delay=_span(row.retry_delay_seconds),
        timeout=as_timeout(row.timeout_seconds),
        variance=as_span(row.variance_seconds),
        exclusions=json.loads(row.exclusions),
        misfire_threshold=as_span(row.misfire_threshold_seconds),
        keep_for=_span(row.keep_for_seconds),
        waiting_entry_id=row.waiting_id,
        waiting_entries=row.turns,
        dead_letter_id=row.letter_id,
        parent=edges[0].parent if edges else None,
        after=tuple(edge.parent for edge in edges),
        on=edges[0].kind.value if edges else None,
        pass_output=any(edge.is_output_passed for edge in edges),
        dependents=picture.dependents,
        overrides={**_shown_overrides(row, layouts), **_shown_next(picture)},
    )


def _shown_overrides(row: Row, layouts: Layouts) -> Json:
    """Return the overrides, with secrets of an input masked."""
    overrides = json.loads(row.overrides)
    if "input" not in overrides:
        return overrides
    return {**overrides, "input": layouts.shown(json.dumps(overrides["input"]))}


def _shown_next(picture: ManifestPicture) -> Json:
    """Return the next instant as an override while it is still the next."""
    view = picture.view
    return {"next": view.next_set_to} if view.is_next_set else {}


def edges_in(picture: ManifestPicture) -> tuple[Edge, ...]:
    """Return what a manifest depends on."""
    return tuple(Edge(row.parent, EdgeKind(row.kind), row.is_output_passed) for row in picture.parents)


def describe_schedule(row: Row, edges: Sequence[Edge]) -> str:
    """Describe when a manifest runs."""
    return describe(
        ScheduleColumns(
            kind=row.schedule_type,
            expression=row.cron_expression,
            seconds=row.interval_seconds,
            timezone=row.timezone,
        ),
        edges,
    )


def describe_state(row: Row, *, is_active: bool) -> str:
    """Describe the state of a manifest."""
    if row.orphaned_at is not None:
        return "orphaned"
    if not row.is_enabled:
        return "disabled"
    if not row.is_group_enabled:
        return "group disabled"
    if row.letter_id is not None:
        return "parked"
    return "active" if is_active else "enabled"


def _summary(row: Row) -> ManifestSummary:
    return shown(
        ManifestSummary,
        row,
        group=row.group_name,
        schedule=describe_schedule(row, edges_from_json(row.edges)),
        state=describe_state(row, is_active=row.is_active),
        dead_letter_id=row.letter_id,
    )


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else as_span(seconds)
