"""The OpenAPI document."""

from __future__ import annotations

from fastapi import Request

from gandy.web.access.routes import Routes

router = Routes("/api/v1")


@router.reads("/openapi.json")
async def openapi(request: Request) -> dict[str, object]:
    """Describe the REST interface."""
    document: dict[str, object] = request.app.openapi()
    return document
