"""Manifests: search them, and one of them with all that decides about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from urllib.parse import quote

from fastapi import Form, Query
from starlette.responses import Response

from gandy.desk.cancelling import CancelDesk
from gandy.desk.explain import explain_manifest
from gandy.desk.runs import RunInsights
from gandy.desk.schedules import PreviewedInstant, preview_manifest
from gandy.errors import OverrideError
from gandy.settings.bounds import LONGEST_SPAN
from gandy.store.reading.listings import RunFilter
from gandy.store.reading.views import ManifestFilter
from gandy.web.access.routes import Routes
from gandy.web.pages.surroundings import PAGE_SIZE, Here, PageQuery
from gandy.web.parts import CurrentOperator, Parts, WebParts
from gandy.web.routers.bodies import Taken
from gandy.web.routers.manifests import ExternalId, desk_of
from gandy.web.routers.shapes import Word

router = Routes("/manifests")

_PREVIEWED = 8
_RUNS = 10
_LONGEST_DELAY = LONGEST_SPAN / timedelta(minutes=1)


class ManifestPageQuery(PageQuery):
    """Which manifests."""

    q: Word | None = None  #: the beginning of an id
    train: Word | None = None
    group: Word | None = None
    state: Annotated[str | None, Query(pattern="^(enabled|disabled)$")] = None
    after: Word | None = None


@router.reads("")
async def list_manifests(
    parts: Parts, operator: CurrentOperator, here: Here, query: Annotated[ManifestPageQuery, Query()]
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
    found = await desk_of(parts, operator).list(wanted)
    path = here.link("/manifests")
    return here.page(
        "manifests.html",
        manifests=found,
        query=query,
        trains=parts.registry.names,
        is_filtered=query.is_filtered,
        first=query.address(path) if query.after else None,
        more=query.address(path, after=found.next) if found.next else None,
    )


@router.reads("/{external_id:path}")
async def show_manifest(
    parts: Parts, operator: CurrentOperator, here: Here, external_id: ExternalId
) -> Response:
    """Show one manifest."""
    manifest = await desk_of(parts, operator).show(external_id)
    wanted = RunFilter(manifest=external_id, limit=_RUNS)
    return here.page(
        "manifest.html",
        manifest=manifest,
        why=await explain_manifest(parts.database, external_id, parts.owners),
        upcoming=await _upcoming(parts, external_id),
        runs=await RunInsights(parts.database, parts.owners, parts.registry).list(wanted),
        base=here.link(f"/manifests/{quote(external_id)}"),
    )


@router.changes("/{external_id:path}/trigger")
async def trigger(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    external_id: ExternalId,
    minutes: Annotated[float, Form(ge=0, le=_LONGEST_DELAY, allow_inf_nan=False)] = 0,
) -> Response:
    """Queue it now or later."""
    triggered = await desk_of(parts, operator).trigger(external_id, delay=timedelta(minutes=minutes))
    said = "is queued" if triggered.is_new else "waited already"
    return here.done(_page(external_id), f"{external_id} {said} as {triggered.id}.")


@router.changes("/{external_id:path}/disable")
async def disable(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    external_id: ExternalId,
    reason: Annotated[str, Taken("reason", is_typed=True), Form()] = "",
) -> Response:
    """Switch it off, and say why."""
    await desk_of(parts, operator).disable(external_id, reason.strip() or None)
    return here.done(_page(external_id), f"{external_id} is paused. No deploy switches it on again.")


@router.changes("/{external_id:path}/enable")
async def enable(parts: Parts, operator: CurrentOperator, here: Here, external_id: ExternalId) -> Response:
    """Switch it on."""
    await desk_of(parts, operator).enable(external_id)
    return here.done(_page(external_id), f"{external_id} is enabled.")


@router.changes("/{external_id:path}/reset")
async def reset(parts: Parts, operator: CurrentOperator, here: Here, external_id: ExternalId) -> Response:
    """Clear every override."""
    await desk_of(parts, operator).reset(external_id)
    return here.done(_page(external_id), f"{external_id} is as declared again.")


@router.changes("/{external_id:path}/cancel")
async def cancel(parts: Parts, operator: CurrentOperator, here: Here, external_id: ExternalId) -> Response:
    """Cancel its run and the entry that waits."""
    desk = CancelDesk(parts.database, operator, parts.settings, owners=parts.owners)
    result = await desk.manifest(external_id)
    touched = len(result.cancelled) + len(result.asked)
    return here.done(
        _page(external_id), f"{touched} cancelled." if touched else "There was nothing to cancel."
    )


async def _upcoming(parts: WebParts, external_id: str) -> tuple[PreviewedInstant, ...]:
    """List what comes; a schedule that cannot be read has nothing to come, and the page says why."""
    try:
        return await preview_manifest(parts.database, external_id, _PREVIEWED, owners=parts.owners)
    except OverrideError:
        return ()


def _page(external_id: str) -> str:
    return f"/manifests/{quote(external_id)}"
