"""The body of `set`: what an operator may put over the declared values."""

from __future__ import annotations

import json

from pydantic import Field

from gandy.desk.changes import ManifestChanges, replaced_schedule
from gandy.model import exclusion_json
from gandy.model.exclusion import MOST_EXCLUSIONS
from gandy.model.schedule import MisfirePolicy
from gandy.web.routers.bodies import InputBody, SecondsIn, input_text, span_of
from gandy.web.routers.shapes import Json, Word


class ChangesBody(InputBody):
    """What is left out stays as it is."""

    cron: Word | None = Field(None, description="Five fields, or six with seconds.")
    timezone: Word | None = Field(None, description="The zone of `cron` or `every`, UTC by default.")
    every: SecondsIn | None = Field(None, description="A fixed rate in seconds, instead of a cron.")
    exclude: list[Json] | None = Field(
        None,
        max_length=MOST_EXCLUSIONS,
        description='Such as [{"days": ["sat", "sun"]}, {"start": "22:00", "end": "06:00"}]; [] for none.',
    )
    group: Word | None = None
    priority: int | None = Field(None, ge=0, le=31)
    max_retries: int | None = Field(None, ge=0, le=1_000)
    retry: bool | None = None
    retry_delay: SecondsIn | None = None
    timeout: SecondsIn | None = None
    variance: SecondsIn | None = None
    misfire: MisfirePolicy | None = None
    misfire_threshold: SecondsIn | None = None
    keep_for: SecondsIn | None = None
    keep_last: int | None = Field(None, ge=1, le=1_000_000)

    def changes(self) -> ManifestChanges:
        """Give it to the desk."""
        return ManifestChanges(
            schedule=replaced_schedule(self.cron, span_of(self.every), self.timezone),
            input_json=input_text(self),
            group=self.group,
            priority=self.priority,
            max_retries=self.max_retries,
            is_retried=self.retry,
            retry_delay=span_of(self.retry_delay),
            timeout=span_of(self.timeout),
            variance=span_of(self.variance),
            exclusions=None if self.exclude is None else exclusion_json.from_json(json.dumps(self.exclude)),
            misfire_policy=self.misfire,
            misfire_threshold=span_of(self.misfire_threshold),
            keep_for=span_of(self.keep_for),
            keep_last=self.keep_last,
        )
