"""The files that pages load: from the package, and kept by browsers, for a new one has a new address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.staticfiles import StaticFiles
from typing_extensions import override

if TYPE_CHECKING:
    from typing import Any

    from starlette.responses import Response

_KEPT = "public, max-age=31536000, immutable"


class Assets(StaticFiles):
    """The folder `static` of this package."""

    def __init__(self) -> None:
        super().__init__(packages=[("gandy.web", "static")])

    @override
    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["Cache-Control"] = _KEPT
        return response
