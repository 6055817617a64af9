"""/trains: what this application knows to do."""

from __future__ import annotations

from gandy.desk.groups import TrainSummary, list_trains
from gandy.web.access.routes import Routes
from gandy.web.parts import Parts
from gandy.web.routers.shapes import HIGHEST_ID, page, page_of

router = Routes("/api/v1/trains", tag="trains")


@router.reads("", response_model=page_of(TrainSummary))
async def list_of_trains(parts: Parts) -> object:
    """List the trains by name."""
    return page(list_trains(parts.registry, parts.settings.retry), HIGHEST_ID)
