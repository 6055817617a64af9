"""The form that changes a manifest."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, TypeAlias
from urllib.parse import quote

from fastapi import Form
from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator
from starlette.responses import Response

from gandy.desk.schedules import ManifestChanges, replaced_schedule
from gandy.model import exclusion as exclusion_json
from gandy.model.schedule import MisfirePolicy
from gandy.settings.bounds import Timeout
from gandy.web.access.routes import Routes
from gandy.web.bodies import Taken
from gandy.web.dependencies import CurrentContext, CurrentOperator
from gandy.web.manifests import ExternalId, desk_of
from gandy.web.surroundings import Here

pages = Routes("/manifests")

_LONGEST_JSON = 200_000


JsonText: TypeAlias = Annotated[str, Field(max_length=_LONGEST_JSON)]


class ChangesForm(BaseModel):
    """The typed fields; durations are read as on the command line."""

    model_config = ConfigDict(extra="ignore")

    cron: Annotated[str, Taken("cron", is_typed=True)] | None = None
    every: Annotated[timedelta, Taken("every", is_typed=True)] | None = None
    timezone: Annotated[str, Taken("timezone", is_typed=True)] | None = None
    group: Annotated[str, Taken("group", is_typed=True)] | None = None
    priority: Annotated[int, Taken("priority", is_typed=True)] | None = None
    max_retries: Annotated[int, Taken("max_retries", is_typed=True)] | None = None
    retry: Annotated[bool, Taken("retry", is_typed=True)] | None = None
    retry_delay: Annotated[timedelta, Taken("retry_delay", is_typed=True)] | None = None
    timeout: Annotated[Timeout, Taken("timeout", is_typed=True)] | None = None
    variance: Annotated[timedelta, Taken("variance", is_typed=True)] | None = None
    misfire: MisfirePolicy | None = None
    misfire_threshold: Annotated[timedelta, Taken("misfire_threshold", is_typed=True)] | None = None
    keep_for: Annotated[timedelta, Taken("keep_for", is_typed=True)] | None = None
    keep_last: Annotated[int, Taken("keep_last", is_typed=True)] | None = None
    next: Annotated[datetime, Taken("next_at", is_typed=True)] | None = None
    exclude: JsonText | None = None
    input: JsonText | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("input")
    @classmethod
    def _is_json(cls, value: str | None) -> str | None:
        parsed: JsonValue = None if value is None else json.loads(value)
        return None if value is None else json.dumps(parsed, ensure_ascii=False)

    def changes(self) -> ManifestChanges:
        """Convert it for the desk."""
        return ManifestChanges(
            schedule=replaced_schedule(self.cron, self.every, self.timezone),
            input_json=self.input,
            group=self.group,
            priority=self.priority,
            max_retries=self.max_retries,
            is_retried=self.retry,
            retry_delay=self.retry_delay,
            timeout=self.timeout,
            variance=self.variance,
            exclusions=None if self.exclude is None else exclusion_json.from_json(self.exclude),
            misfire_policy=self.misfire,
            misfire_threshold=self.misfire_threshold,
            keep_for=self.keep_for,
            keep_last=self.keep_last,
            next_at=self.next,
        )


@pages.reads("/{external_id:path}/set")
async def show_form(
    context: CurrentContext, operator: CurrentOperator, here: Here, external_id: ExternalId
) -> Response:
    """Show the form."""
    return here.page(
        "manifest_set.html",
        manifest=await desk_of(context, operator).show(external_id),
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
