"""The body of `set`: what an operator may put over the declared values."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from gandy.desk.schedules import ManifestChanges, replaced_schedule
from gandy.model import exclusion as exclusion_json
from gandy.model.exclusion import MOST_EXCLUSIONS
from gandy.model.schedule import MisfirePolicy
from gandy.settings.bounds import Timeout
from gandy.web.routers.bodies import InputBody, Taken, input_text
from gandy.web.routers.shapes import Json


class ChangesBody(InputBody):
    """What is left out stays as it is."""

    cron: Annotated[str, Taken("cron")] | None = Field(
        None, description="Five fields, six with seconds, or a word such as @daily."
    )
    timezone: Annotated[str, Taken("timezone")] | None = Field(
        None, description="The zone of `cron` or `every`, UTC by default."
    )
    every: Annotated[timedelta, Taken("every")] | None = Field(
        None, description="A fixed rate in seconds, instead of a cron."
    )
    exclude: list[Json] | None = Field(
        None,
        max_length=MOST_EXCLUSIONS,
        description='Such as [{"days": ["sat", "sun"]}, {"start": "22:00", "end": "06:00"}]; [] for none.',
    )
    group: Annotated[str, Taken("group")] | None = None
    priority: Annotated[int, Taken("priority")] | None = None
    max_retries: Annotated[int, Taken("max_retries")] | None = None
    retry: Annotated[bool, Taken("retry")] | None = None
    retry_delay: Annotated[timedelta, Taken("retry_delay")] | None = None
    timeout: Annotated[Timeout, Taken("timeout")] | None = Field(
        None, description="The seconds that a run may take, or `none`."
    )
    variance: Annotated[timedelta, Taken("variance")] | None = None
    misfire: MisfirePolicy | None = None
    misfire_threshold: Annotated[timedelta, Taken("misfire_threshold")] | None = None
    keep_for: Annotated[timedelta, Taken("keep_for")] | None = None
    keep_last: Annotated[int, Taken("keep_last")] | None = None
    next: Annotated[datetime, Taken("next_at")] | None = Field(
        None, description="Its next instant, put right by hand: ahead of now, with a time zone."
    )

    def changes(self) -> ManifestChanges:
        """Give it to the desk."""
        return ManifestChanges(
            schedule=replaced_schedule(self.cron, self.every, self.timezone),
            input_json=input_text(self),
            group=self.group,
            priority=self.priority,
            max_retries=self.max_retries,
            is_retried=self.retry,
            retry_delay=self.retry_delay,
            timeout=self.timeout,
            variance=self.variance,
            exclusions=None if self.exclude is None else exclusion_json.from_json(json.dumps(self.exclude)),
            misfire_policy=self.misfire,
            misfire_threshold=self.misfire_threshold,
            keep_for=self.keep_for,
            keep_last=self.keep_last,
            next_at=self.next,
        )
