"""Every route of the dashboard and the REST interface, from the route table, by method and path alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from starlette.routing import Mount, Route

from gandy.web.application import routes


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that a route answers; what the route says about itself is not looked at."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def every_route() -> list[Asked]:
    """List them; logging out comes last, for it ends what the others are asked with."""
    found = [
        Asked(method, re.sub(r"\{(\w+)(:\w+)?\}", "1", route.path))
        for route in routes()
        if isinstance(route, Route)
        for method in sorted(route.methods or ())
    ]
    mounts = [Asked("GET", f"{each.path}/app.css") for each in routes() if isinstance(each, Mount)]
    assert len(found) + len(mounts) >= len(routes())
    return sorted({*found, *mounts}, key=lambda asked: (asked.path == "/logout", asked.path, asked.method))


ROUTES: Final = every_route()
