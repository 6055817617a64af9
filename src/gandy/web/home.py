"""The home page."""

from __future__ import annotations

from starlette.responses import Response

from gandy.desk.home import Home
from gandy.web.access.routes import Routes
from gandy.web.dependencies import CurrentContext
from gandy.web.surroundings import Here

pages = Routes()


@pages.reads("/")
async def home(context: CurrentContext, here: Here) -> Response:
    """Show the overview."""
    now = await Home(context.database, context.owner).overview()
    held = await here.held_rules.concerns(context.contracts)
    return here.page("home.html", now=now, concerns=(*held, *now.concerns))


@pages.reads("/charts/throughput")
async def throughput(context: CurrentContext) -> dict[str, object]:
    """Return the points of the chart."""
    found = await Home(context.database, context.owner).throughput()
    ended = sum(minute.completed + minute.failed for minute in found.minutes)
    failed = sum(minute.failed for minute in found.minutes)
    return {
        "at": [minute.at.timestamp() for minute in found.minutes],
        "series": [
            {
                "name": "completed",
                "colour": "--good",
                "values": [minute.completed + minute.failed for minute in found.minutes],
            },
            {"name": "failed", "colour": "--bad", "values": [minute.failed for minute in found.minutes]},
        ],
        "note": f"the last hour: {ended:,} runs, {failed:,} failed",
    }
