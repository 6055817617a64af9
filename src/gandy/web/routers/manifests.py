"""/manifests: what is scheduled, why it did or did not run, and what an operator set over it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field

from gandy.desk.cancelling import CancelDesk
from gandy.desk.explain import Explanation, explain_manifest
from gandy.desk.manifests import ManifestDesk, ManifestDetail, ManifestSummary
from gandy.desk.schedules import PreviewedInstant, preview_manifest
from gandy.model.owners import Operator
from gandy.model.schedule import ScheduleType
from gandy.store.drivers.database import ReadingRunner
from gandy.store.reading.views import ManifestFilter
from gandy.web.access.routes import Routes
from gandy.web.parts import CurrentOperator, Parts, WebParts
from gandy.web.routers.bodies import CancelAnswer, InputBody, Taken, input_text
from gandy.web.routers.manifest_changes import ChangesBody
from gandy.web.routers.repeating import JobAnswer, OncePerKey
from gandy.web.routers.shapes import (
    HIGHEST_ID,
    LARGEST_PAGE,
    Body,
    Word,
    found_page,
    page,
    page_of,
    shape_of,
)

router = Routes("/api/v1/manifests", tag="manifests")

#: An external id may hold slashes.
ExternalId = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
MOST_PREVIEWED = 200


class ManifestQuery(Body):
    """Which manifests."""

    prefix: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    train: Word | None = None
    group: Word | None = None
    schedule: ScheduleType | None = None
    is_enabled: bool | None = None
    after: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = Field(
        "", description="Only what comes after this id: `next` of the page before."
    )
    limit: int = Field(50, ge=1, le=LARGEST_PAGE)

    def wanted(self) -> ManifestFilter:
        """Give it to the desk."""
        return ManifestFilter(
            prefix=self.prefix,
            train=self.train,
            group=self.group,
            schedule_type=self.schedule,
            is_enabled=self.is_enabled,
            after=self.after,
            limit=self.limit,
        )


class TriggerBody(InputBody):
    """When, and with which input."""

    delay: Annotated[timedelta, Taken("delay")] = Field(
        timedelta(0), description="Seconds from now.", json_schema_extra={"default": 0}
    )


class DisableBody(Body):
    """Why it is switched off."""

    reason: Annotated[str, Taken("reason")] | None = None


class DeleteAnswer(BaseModel):
    """Whether a manifest is gone."""

    is_gone: bool = Field(description="False: it still runs, and goes when it has ended.")


@router.reads("", response_model=page_of(ManifestSummary))
async def list_manifests(
    parts: Parts, operator: CurrentOperator, query: Annotated[ManifestQuery, Query()]
) -> object:
    """List manifests by external id."""
    return found_page(await desk_of(parts, operator).list(query.wanted()))


@router.reads("/{external_id:path}/explain", response_model=shape_of(Explanation))
async def explain(parts: Parts, external_id: ExternalId) -> object:
    """Say why a manifest did or did not run, and what to do about it."""
    return await explain_manifest(parts.database, external_id, parts.owners)


@router.reads("/{external_id:path}/preview", response_model=page_of(PreviewedInstant))
async def preview(
    parts: Parts,
    external_id: ExternalId,
    count: Annotated[int, Query(ge=1, le=MOST_PREVIEWED)] = 10,
) -> object:
    """List the next instants, exclusions and clock changes marked."""
    return page(await preview_manifest(parts.database, external_id, count, owners=parts.owners), HIGHEST_ID)


@router.reads("/{external_id:path}", response_model=shape_of(ManifestDetail))
async def show_manifest(parts: Parts, operator: CurrentOperator, external_id: ExternalId) -> object:
    """Show one manifest."""
    return await desk_of(parts, operator).show(external_id)


@router.changes("/{external_id:path}/trigger")
async def trigger(
    parts: Parts,
    operator: CurrentOperator,
    once: OncePerKey,
    external_id: ExternalId,
    body: TriggerBody | None = None,
) -> JobAnswer:
    """Queue a manifest now or later; where an entry waits, that entry serves."""
    delay = timedelta(0) if body is None else body.delay

    async def make(database: ReadingRunner) -> JobAnswer:
        desk = ManifestDesk(database, operator, owners=parts.owners, registry=parts.registry)
        triggered = await desk.trigger(external_id, delay=delay, input_json=input_text(body))
        return JobAnswer(id=triggered.id, is_new=triggered.is_new)

    return await once.job(make)


@router.changes("/{external_id:path}/set", response_model=shape_of(ManifestDetail))
async def set_manifest(
    parts: Parts, operator: CurrentOperator, external_id: ExternalId, body: ChangesBody
) -> object:
    """Set values over the declared ones; they win until they are cleared."""
    return await desk_of(parts, operator).set(external_id, body.changes())


@router.changes("/{external_id:path}/reset", response_model=shape_of(ManifestDetail))
async def reset_manifest(parts: Parts, operator: CurrentOperator, external_id: ExternalId) -> object:
    """Clear every override."""
    return await desk_of(parts, operator).reset(external_id)


@router.changes("/{external_id:path}/enable", response_model=shape_of(ManifestDetail))
async def enable_manifest(parts: Parts, operator: CurrentOperator, external_id: ExternalId) -> object:
    """Switch a manifest on."""
    return await desk_of(parts, operator).enable(external_id)


@router.changes("/{external_id:path}/disable", response_model=shape_of(ManifestDetail))
async def disable_manifest(
    parts: Parts, operator: CurrentOperator, external_id: ExternalId, body: DisableBody | None = None
) -> object:
    """Switch a manifest off; no deploy switches it on again."""
    return await desk_of(parts, operator).disable(external_id, None if body is None else body.reason)


@router.changes("/{external_id:path}/cancel")
async def cancel_manifest(parts: Parts, operator: CurrentOperator, external_id: ExternalId) -> CancelAnswer:
    """Cancel a manifest's run and the entry that waits; its next occurrence runs as usual."""
    desk = CancelDesk(parts.database, operator, parts.settings, owners=parts.owners)
    return CancelAnswer.of(await desk.manifest(external_id))


@router.changes("/{external_id:path}/delete")
async def delete_manifest(parts: Parts, operator: CurrentOperator, external_id: ExternalId) -> DeleteAnswer:
    """Remove a manifest that was made at run time or is no longer declared."""
    return DeleteAnswer(is_gone=await desk_of(parts, operator).delete(external_id))


def desk_of(parts: WebParts, operator: Operator) -> ManifestDesk:
    """Give the desk where manifests are dealt with."""
    return ManifestDesk(parts.database, operator, owners=parts.owners, registry=parts.registry)
