"""The form that changes a manifest."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import quote

from fastapi import Form
from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator
from starlette.responses import Response

from gandy.desk.schedules import OVERRIDABLE, ManifestChanges, replaced_schedule
from gandy.model.schedule import MisfirePolicy
from gandy.web.access.routes import Routes
from gandy.web.bodies import Taken, given_options, with_options
from gandy.web.dependencies import CurrentContext, CurrentOperator
from gandy.web.manifests import ExternalId, desk_of
from gandy.web.surroundings import Here

pages = Routes("/manifests")

_LONGEST_JSON = 200_000


JsonText: TypeAlias = Annotated[str, Field(max_length=_LONGEST_JSON)]


class _ChangesForm(BaseModel):
    """The typed fields; durations are read as on the command line."""

    model_config = ConfigDict(extra="ignore")

    cron: Annotated[str, Taken("cron", is_typed=True)] | None = None
    every: Annotated[timedelta, Taken("every", is_typed=True)] | None = None
    timezone: Annotated[str, Taken("timezone", is_typed=True)] | None = None
    next: Annotated[datetime, Taken("next_at", is_typed=True)] | None = None
    input: JsonText | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("next", mode="before")
    @classmethod
    def _in_utc(cls, value: object) -> object:
        """Take an instant without an offset in UTC; the page's script sends it so."""
        try:
            found = datetime.fromisoformat(value.strip()) if isinstance(value, str) else None
        except ValueError:
            return value
        return value if found is None or found.tzinfo is not None else found.replace(tzinfo=UTC).isoformat()

    @field_validator("input")
    @classmethod
    def _is_json(cls, value: str | None) -> str | None:
        parsed: JsonValue = None if value is None else json.loads(value)
        return None if value is None else json.dumps(parsed, ensure_ascii=False)

    def changes(self) -> ManifestChanges:
        """Convert it for the desk."""
        values = given_options(self)
        return ManifestChanges(
            schedule=replaced_schedule(self.cron, self.every, self.timezone),
            input_json=self.input,
            next_at=self.next,
            **{option.field: values[option.keyword] for option in OVERRIDABLE},
        )


if TYPE_CHECKING:
    ChangesForm = _ChangesForm
else:
    ChangesForm = with_options("ChangesForm", _ChangesForm, is_typed=True, json_type=JsonText)


@pages.reads("/{external_id:path}/set")
async def show_form(
    context: CurrentContext, operator: CurrentOperator, here: Here, external_id: ExternalId
) -> Response:
    """Show the form."""
    return here.page(
        "manifest_set.html",
        manifest=await desk_of(context, operator).show(external_id),
        options=OVERRIDABLE,
        policies=list(MisfirePolicy),
        base=here.link(f"/manifests/{quote(external_id)}"),
    )


@pages.changes("/{external_id:path}/set")
async def set_values(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    external_id: ExternalId,
    form: Annotated[ChangesForm, Form()],
) -> Response:
    """Override declared values with the typed ones."""
    await desk_of(context, operator).set(external_id, form.changes())
    return here.done(
        f"/manifests/{quote(external_id)}", f"{external_id} is changed; the change survives a deploy."
    )
