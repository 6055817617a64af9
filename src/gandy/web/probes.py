"""Probes, metrics, and the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from gandy.desk.home import Home
from gandy.errors import GandyError
from gandy.telemetry.observing import Measured, observe
from gandy.web.access.routes import Routes
from gandy.web.dependencies import CurrentContext

if TYPE_CHECKING:
    from gandy.desk.home import Overview


router = Routes()


@router.probes("/healthz")
async def healthz() -> Response:
    """Report that the process is alive."""
    return PlainTextResponse("ok")


@router.probes("/readyz")
async def readyz(context: CurrentContext) -> Response:
    """Report whether the database answers and the service loops run; causes are in the log."""
    problems = list(observe(context.events).loops.problems())
    try:
        await Home(context.database, context.owner).ping()
    except GandyError:
        problems.append("the database does not answer")
    return JSONResponse({"ready": not problems, "problems": problems}, status_code=503 if problems else 200)


@router.reads("/metrics")
async def metrics(context: CurrentContext) -> Response:
    """Return all metrics in the text format of Prometheus."""
    found = observe(context.events).metrics
    found.measure(_measured(await Home(context.database, context.owner).overview()))
    return Response(found.exposition(), media_type=found.content_type)


def _measured(now: Overview) -> Measured:
    return Measured(
        waiting={
            "open": now.ready.value,
            "time": now.later.value,
            "manifest": now.held.value,
            "train": now.unknown.value,
            "turn": now.turns.value,
        },
        live_runs={"pending": now.pending.value, "in_progress": now.running.value},
        longest_wait=0.0 if now.longest_wait is None else now.longest_wait.total_seconds(),
        awaiting_letters=now.awaiting_letters.value,
        workers=now.workers,
        slots=now.slots,
        busy=now.busy,
    )


openapi_router = Routes("/api/v1")


@openapi_router.reads("/openapi.json")
async def openapi(request: Request) -> dict[str, object]:
    """Describe the REST interface."""
    document: dict[str, object] = request.app.openapi()
    return document
