"""The body of `set`: what an operator may put over the declared values."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from gandy.desk.changes import ManifestChanges
from gandy.model.schedule import Cron, Interval, MisfirePolicy
from gandy.rules.schedules import cron, every
from gandy.web.routers.bodies import InputBody, SecondsIn, input_text, span_of
from gandy.web.routers.shapes import Word


class ChangesBody(InputBody):
    """What is left out stays as it is."""

    cron: Word | None = Field(None, description="Five fields, or six with seconds.")
    timezone: Word | None = Field(None, description="The zone of `cron`, UTC by default.")
    every: SecondsIn | None = Field(None, description="A fixed rate in seconds, instead of a cron.")
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

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if self.cron is not None and self.every is not None:
            raise ValueError("cron and every exclude each other")
        return self

    def changes(self) -> ManifestChanges:
        """Give it to the desk."""
        return ManifestChanges(
            schedule=self._schedule(),
            input_json=input_text(self),
            group=self.group,
            priority=self.priority,
            max_retries=self.max_retries,
            is_retried=self.retry,
            retry_delay=span_of(self.retry_delay),
            timeout=span_of(self.timeout),
            variance=span_of(self.variance),
            misfire_policy=self.misfire,
            misfire_threshold=span_of(self.misfire_threshold),
            keep_for=span_of(self.keep_for),
            keep_last=self.keep_last,
        )

    def _schedule(self) -> Cron | Interval | None:
        if self.cron is not None:
            return cron(self.cron, self.timezone or "UTC")
        return None if self.every is None else every(seconds=self.every)
