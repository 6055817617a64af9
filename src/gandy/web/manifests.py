"""Manifests: REST interface and pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from urllib.parse import quote

from fastapi import Form, Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from gandy.context import Context
from gandy.desk.cancelling import CancelDesk
from gandy.desk.explain import Explanation, explain_manifest
from gandy.desk.jobs import read_deeds
from gandy.desk.manifests import ManifestDesk, ManifestDetail, ManifestSummary
from gandy.desk.runs import RunInsights
from gandy.desk.schedules import PreviewedInstant, preview_manifest
from gandy.errors import OverrideError
from gandy.model.owners import Operator
from gandy.model.schedule import ScheduleType
from gandy.settings.bounds import LONGEST_SPAN
from gandy.store.drivers.database import ReadingRunner
from gandy.store.reading.listings import RunFilter
from gandy.store.reading.views import ManifestFilter
from gandy.web.access.routes import Routes
from gandy.web.bodies import (
    HIGHEST_ID,
    LARGEST_PAGE,
    AddBody,
    Body,
    CancelAnswer,
    ChangesBody,
    InputBody,
    JobAnswer,
    OncePerKey,
    Taken,
    Word,
    found_page,
    input_text,
    page,
    page_of,
    shape_of,
)
from gandy.web.dependencies import CurrentContext, CurrentOperator
from gandy.web.surroundings import PAGE_SIZE, Here, PageQuery

router = Routes("/api/v1/manifests", tag="manifests")

#: An external id may contain slashes.
ExternalId = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
MOST_PREVIEWED = 200


class ManifestQuery(Body):
    """Filter of manifests."""

    prefix: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    train: Word | None = None
    group: Word | None = None
    schedule: ScheduleType | None = None
    is_enabled: bool | None = None
    after: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = Field(
        "", description="Only ids after this one: `next` of the previous page."
    )
    limit: int = Field(50, ge=1, le=LARGEST_PAGE)

    def wanted(self) -> ManifestFilter:
        """Convert it for the desk."""
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
    """The delay and the input of a trigger."""

    delay: Annotated[timedelta, Taken("delay")] = Field(
        timedelta(0), description="From now.", json_schema_extra={"default": 0}
    )


class DisableBody(Body):
    """Why it is disabled."""

    reason: Annotated[str, Taken("reason")] | None = None


class DeleteAnswer(BaseModel):
    """Whether a manifest is deleted, and what was cancelled with it."""

    is_gone: bool = Field(description="False: a run is in progress; it is deleted when that run ends.")
    cancelled_entries: int = Field(description="How many queued and waiting entries were cancelled with it.")


@router.reads("", response_model=page_of(ManifestSummary))
async def list_manifests(
    context: CurrentContext, operator: CurrentOperator, query: Annotated[ManifestQuery, Query()]
) -> object:
    """List manifests by external id."""
    return found_page(await desk_of(context, operator).list(query.wanted()))


@router.reads("/{external_id:path}/explain", response_model=shape_of(Explanation))
async def explain(context: CurrentContext, external_id: ExternalId) -> object:
    """Explain why a manifest did or did not run, and what to do."""
    return await explain_manifest(context.database, external_id, context.owners)


@router.reads("/{external_id:path}/preview", response_model=page_of(PreviewedInstant))
async def preview(
    context: CurrentContext,
    external_id: ExternalId,
    count: Annotated[int, Query(ge=1, le=MOST_PREVIEWED)] = 10,
) -> object:
    """List the next instants; exclusions and daylight saving changes are marked."""
    return page(
        await preview_manifest(context.database, external_id, count, owners=context.owners), HIGHEST_ID
    )


@router.reads("/{external_id:path}", response_model=shape_of(ManifestDetail))
async def show_manifest(
    context: CurrentContext, operator: CurrentOperator, external_id: ExternalId
) -> object:
    """Show one manifest."""
    return await desk_of(context, operator).show(external_id)


@router.changes("", response_model=shape_of(ManifestDetail))
async def add_manifest(context: CurrentContext, operator: CurrentOperator, body: AddBody) -> object:
    """Make a manifest that no deploy removes, or change one that was made so."""
    return await desk_of(context, operator).add(body.new(), context.settings)


@router.changes("/{external_id:path}", method="DELETE")
async def remove_manifest(
    context: CurrentContext, operator: CurrentOperator, external_id: ExternalId
) -> DeleteAnswer:
    """Remove a manifest that was created at run time or is no longer declared."""
    return await _deleted(context, operator, external_id)


@router.changes("/{external_id:path}/trigger")
async def trigger(
    context: CurrentContext,
    operator: CurrentOperator,
    once: OncePerKey,
    external_id: ExternalId,
    body: TriggerBody | None = None,
) -> JobAnswer:
    """Queue a manifest now or later; an entry that is already queued is reused."""
    delay = timedelta(0) if body is None else body.delay

    async def make(database: ReadingRunner) -> JobAnswer:
        desk = ManifestDesk(database, operator, owners=context.owners, registry=context.registry)
        triggered = await desk.trigger(external_id, delay=delay, input_json=input_text(body))
        return JobAnswer(id=triggered.id, is_new=triggered.is_new)

    return await once.job(make)


@router.changes("/{external_id:path}/set", response_model=shape_of(ManifestDetail))
async def set_manifest(
    context: CurrentContext, operator: CurrentOperator, external_id: ExternalId, body: ChangesBody
) -> object:
    """Override declared values until the overrides are cleared."""
    return await desk_of(context, operator).set(external_id, body.changes())


@router.changes("/{external_id:path}/reset", response_model=shape_of(ManifestDetail))
async def reset_manifest(
    context: CurrentContext, operator: CurrentOperator, external_id: ExternalId
) -> object:
    """Clear every override."""
    return await desk_of(context, operator).reset(external_id)


@router.changes("/{external_id:path}/enable", response_model=shape_of(ManifestDetail))
async def enable_manifest(
    context: CurrentContext, operator: CurrentOperator, external_id: ExternalId
) -> object:
    """Enable a manifest."""
    return await desk_of(context, operator).enable(external_id)


@router.changes("/{external_id:path}/disable", response_model=shape_of(ManifestDetail))
async def disable_manifest(
    context: CurrentContext,
    operator: CurrentOperator,
    external_id: ExternalId,
    body: DisableBody | None = None,
) -> object:
    """Disable a manifest; a deploy does not enable it again."""
    return await desk_of(context, operator).disable(external_id, None if body is None else body.reason)


@router.changes("/{external_id:path}/cancel")
async def cancel_manifest(
    context: CurrentContext, operator: CurrentOperator, external_id: ExternalId
) -> CancelAnswer:
    """Cancel a manifest's run and its queued entry; later occurrences are not affected."""
    desk = CancelDesk(context.database, operator, context.settings, owners=context.owners)
    return CancelAnswer.of(await desk.manifest(external_id))


@router.changes("/{external_id:path}/delete")
async def delete_manifest(
    context: CurrentContext, operator: CurrentOperator, external_id: ExternalId
) -> DeleteAnswer:
    """Delete a manifest, as the method DELETE does."""
    return await _deleted(context, operator, external_id)


async def _deleted(context: Context, operator: Operator, external_id: str) -> DeleteAnswer:
    removed = await desk_of(context, operator).delete(external_id)
    return DeleteAnswer(is_gone=removed.is_gone, cancelled_entries=removed.cancelled_entries)


def desk_of(context: Context, operator: Operator) -> ManifestDesk:
    """Return the desk for manifests."""
    return ManifestDesk(context.database, operator, owners=context.owners, registry=context.registry)


pages = Routes("/manifests")

_PREVIEWED = 8
_RUNS = 10
_LONGEST_DELAY = LONGEST_SPAN / timedelta(minutes=1)


class ManifestPageQuery(PageQuery):
    """Filter of manifests."""

    q: Word | None = None  #: the prefix of an id
    train: Word | None = None
    group: Word | None = None
    state: Annotated[str | None, Query(pattern="^(enabled|disabled)$")] = None
    after: Word | None = None


@pages.reads("")
async def list_manifests_page(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    query: Annotated[ManifestPageQuery, Query()],
) -> Response:
    """List manifests by id."""
    wanted = ManifestFilter(
        prefix=query.q or "",
        train=query.train,
        group=query.group,
        is_enabled=None if query.state is None else query.state == "enabled",
        after=query.after or "",
        limit=PAGE_SIZE,
    )
    found = await desk_of(context, operator).list(wanted)
    path = here.link("/manifests")
    return here.page(
        "manifests.html",
        manifests=found,
        query=query,
        trains=context.registry.names,
        is_filtered=query.is_filtered,
        first=query.address(path) if query.after else None,
        more=query.address(path, after=found.next) if found.next else None,
    )


@pages.reads("/{external_id:path}")
async def show_manifest_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, external_id: ExternalId
) -> Response:
    """Show one manifest."""
    manifest = await desk_of(context, operator).show(external_id)
    wanted = RunFilter(manifest=external_id, limit=_RUNS)
    return here.page(
        "manifest.html",
        manifest=manifest,
        why=await explain_manifest(context.database, external_id, context.owners),
        upcoming=await _upcoming(context, external_id),
        deeds=await read_deeds(context.database, external_id, context.owners),
        runs=await RunInsights(context.database, context.owners, context.registry).list(wanted),
        base=here.link(f"/manifests/{quote(external_id)}"),
    )


@pages.changes("/{external_id:path}/trigger")
async def trigger_page(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    external_id: ExternalId,
    minutes: Annotated[float, Form(ge=0, le=_LONGEST_DELAY, allow_inf_nan=False)] = 0,
) -> Response:
    """Queue it now or later."""
    triggered = await desk_of(context, operator).trigger(external_id, delay=timedelta(minutes=minutes))
    said = "is queued" if triggered.is_new else "was already queued"
    return here.done(_page(external_id), f"{external_id} {said} as {triggered.id}.")


@pages.changes("/{external_id:path}/disable")
async def disable(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    external_id: ExternalId,
    reason: Annotated[str, Taken("reason", is_typed=True), Form()] = "",
) -> Response:
    """Disable it, with a reason."""
    await desk_of(context, operator).disable(external_id, reason.strip() or None)
    return here.done(_page(external_id), f"{external_id} is paused. A deploy does not enable it again.")


@pages.changes("/{external_id:path}/enable")
async def enable(
    context: CurrentContext, operator: CurrentOperator, here: Here, external_id: ExternalId
) -> Response:
    """Enable it."""
    await desk_of(context, operator).enable(external_id)
    return here.done(_page(external_id), f"{external_id} is enabled.")


@pages.changes("/{external_id:path}/reset")
async def reset(
    context: CurrentContext, operator: CurrentOperator, here: Here, external_id: ExternalId
) -> Response:
    """Clear every override."""
    await desk_of(context, operator).reset(external_id)
    return here.done(_page(external_id), f"{external_id} has its declared values again.")


@pages.changes("/{external_id:path}/cancel")
async def cancel(
    context: CurrentContext, operator: CurrentOperator, here: Here, external_id: ExternalId
) -> Response:
    """Cancel its run and its queued entry."""
    desk = CancelDesk(context.database, operator, context.settings, owners=context.owners)
    result = await desk.manifest(external_id)
    touched = len(result.cancelled) + len(result.asked)
    return here.done(
        _page(external_id), f"{touched} cancelled." if touched else "There was nothing to cancel."
    )


async def _upcoming(context: Context, external_id: str) -> tuple[PreviewedInstant, ...]:
    """List the next instants; none for an invalid schedule, whose error the page shows elsewhere."""
    try:
        return await preview_manifest(context.database, external_id, _PREVIEWED, owners=context.owners)
    except OverrideError:
        return ()


def _page(external_id: str) -> str:
    return f"/manifests/{quote(external_id)}"
