"""The files that pages load: from the package, and kept by browsers, for a new one has a new address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.staticfiles import StaticFiles
from typing_extensions import override

if TYPE_CHECKING:
    from typing import Any

    from starlette.responses import Response
    from starlette.types import Scope

    from gandy.web.access.gate import Gate

_KEPT = "public, max-age=31536000, immutable"


class Assets(StaticFiles):
    """The folder `static` of this package."""

    def __init__(self) -> None:
        super().__init__(packages=[("gandy.web", "static")])

    @override
    async def get_response(self, path: str, scope: Scope) -> Response:
        request = Request(scope)
        gate: Gate = request.app.state.gate
        gate.refuse_closed(request)
        return await super().get_response(path, scope)

    @override
    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["Cache-Control"] = _KEPT
        return response
