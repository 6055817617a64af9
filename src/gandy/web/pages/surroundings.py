"""What every page needs at hand."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias
from urllib.parse import urlencode

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.responses import Response

from gandy.desk.lifecycle import HeldRules
from gandy.web.rendering import Rendering
from gandy.web.routers.shapes import HIGHEST_ID, Id

PAGE_SIZE = 50


class Surroundings:
    """Renders pages in answer to one request."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._rendering: Rendering = request.app.state.rendering
        self.held_rules: HeldRules = request.app.state.held_rules

    def page(self, template: str, **context: Any) -> Response:  # noqa: ANN401 whatever the template shows
        """Show a page."""
        return self._rendering.page(self.request, template, context)

    def done(self, path: str, said: str) -> Response:
        """Go to a page and say there what happened."""
        return self._rendering.done(self.request, path, said)

    def link(self, path: str) -> str:
        """Name a page of ours."""
        return self._rendering.link(self.request, path)


async def _surroundings(request: Request) -> Surroundings:
    return Surroundings(request)


Here: TypeAlias = Annotated[Surroundings, Depends(_surroundings)]


class PageQuery(BaseModel):
    """What the address of a listing says; an empty field of a form does not filter."""

    model_config = ConfigDict(extra="ignore")

    before: Id | None = Field(None, le=HIGHEST_ID)

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @property
    def is_filtered(self) -> bool:
        """Whether anything but the page is asked for."""
        return bool(self.model_dump(exclude_none=True, exclude={"before", "after"}))

    def address(self, path: str, **page: object) -> str:
        """Write the address of the same listing, at another page."""
        kept = self.model_dump(mode="json", exclude_none=True, exclude={"before", "after"})
        query = urlencode({**kept, **{key: value for key, value in page.items() if value is not None}})
        return f"{path}?{query}" if query else path
