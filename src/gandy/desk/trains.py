"""What a person may ask about the trains of an application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.model.manifest import DEFAULT_GROUP
from gandy.settings.bounds import Timeout  # noqa: TC001 the faces read it at run time
from gandy.train.failure import type_path
from gandy.train.route import type_name

if TYPE_CHECKING:
    from gandy.settings import RetrySettings
    from gandy.train.registry import AnyTrain, Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSummary:
    """A train as it was defined."""

    name: str
    input: str
    output: str
    junctions: tuple[str, ...]
    provided: tuple[str, ...]  #: the types that it needs beside its input
    group: str
    priority: int | None
    timeout: Timeout | None
    max_retries: int
    retry: bool
    give_up_on: tuple[str, ...]  #: exceptions that park a job at once
    process: bool
    place: str


def list_trains(registry: Registry, retry: RetrySettings) -> tuple[TrainSummary, ...]:
    """List the trains by name; what a train leaves to the settings is theirs."""
    return tuple(_summary(registry.get(name), retry) for name in registry.names)


def _summary(train: AnyTrain, retry: RetrySettings) -> TrainSummary:
    options = train.options
    return TrainSummary(
        name=train.name,
        input=train.input_type_name,
        output=type_name(train.plan.output_key),
        junctions=tuple(step.name for step in train.plan.steps),
        provided=tuple(sorted({type_name(need.key) for need in train.plan.needs})),
        group=options.group or DEFAULT_GROUP,
        priority=options.priority,
        timeout=options.timeout,
        max_retries=retry.max_retries if options.max_retries is None else options.max_retries,
        retry=options.retry,
        give_up_on=tuple(type_path(kind) for kind in options.give_up_on),
        process=options.process,
        place=train.place,
    )
