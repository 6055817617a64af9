"""The keywords of trains and schedules, and the dependents of a declared schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Required, TypeAlias, TypedDict, Unpack, overload

from gandy.desk.declarations import NOT_GIVEN, Place
from gandy.model.schedule import Manual, MisfirePolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime, timedelta

    from gandy.app.declared import Declared
    from gandy.lifecycle import Table
    from gandy.model.exclusion import Exclusion
    from gandy.settings.bounds import Timeout
    from gandy.store.queueing import UniqueUntil
    from gandy.sweep import Budget, Pace
    from gandy.train.base import (
        FunctionOf,
        In,
        RunFirstTrainOf,
        Train,
        TrainWithInput,
        TrainWithoutInput,
    )


MisfireWord: TypeAlias = Literal["fire_once_now", "do_nothing", "catch_up"]
ScheduleWord: TypeAlias = Literal["none", "cron", "interval", "once", "dependent", "dormant_dependent"]
RunState: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
EndWord: TypeAlias = Literal["success", "failure", "end"]
AnyTrain: TypeAlias = "type | Callable[..., object]"
#: One or several manifests, by what declared them or by id, or all of a `schedule_many`.
Parents: TypeAlias = "str | Scheduled | Collection[str | Scheduled] | Mapping[str, Scheduled]"


class TrainKeywords(TypedDict, total=False):
    """The keywords of `@app.train(...)`, for every run of a train."""

    group: str | None
    priority: int | None
    timeout: Timeout | None
    max_retries: int | None
    retry: bool
    retry_delay: timedelta | None
    keep_for: timedelta | None
    unique_until: UniqueUntil | None
    process: bool
    give_up_on: tuple[type[Exception], ...]


class FilterKeywords(TypedDict, total=False):
    """The filters that runs, entries and dead letters have in common."""

    train: AnyTrain | str | None
    manifest: str | None
    group: str | None
    since: datetime | timedelta | None
    until: datetime | timedelta | None
    error_has: str | None
    input_has: str | None


class ChangeKeywords(TypedDict, total=False):
    """The keywords of a schedule that operators override with `manifests.set`."""

    group: str | None
    priority: int | None
    max_retries: int | None
    retry: bool | None
    retry_delay: timedelta | None
    timeout: Timeout | None
    variance: timedelta
    exclude: Exclusion | Sequence[Exclusion]
    misfire: MisfirePolicy | MisfireWord | None
    misfire_threshold: timedelta | None
    keep_for: timedelta | None
    keep_last: int | None


class ScheduleKeywords(ChangeKeywords, total=False):
    """The keywords of a schedule; defaults come from the train, the group or the settings."""

    enabled: bool


class PlacedKeywords(ScheduleKeywords, total=False):
    """The further keywords of `schedule` and `add_schedule`: what the manifest follows."""

    after: Parents | None
    on: EndWord | None
    dormant: bool


def split_place(keywords: Mapping[str, Any]) -> tuple[dict[str, Any], Place]:
    """Separate the options of a schedule from what it follows, with parents by their ids."""
    options = dict(keywords)
    if "after" in options:
        options["after"] = _ids_of(options["after"])
    place = Place.taken_from(options)
    return options, place


def _ids_of(parents: object) -> object:
    """Return the ids of parents; any other value unchanged, to be refused later."""
    if isinstance(parents, Mapping):  # of schedule_many
        return [_ids_of(each) for each in parents.values()]
    if isinstance(parents, str | bytes) or not isinstance(parents, Iterable):
        return parents.external_id if isinstance(parents, Scheduled) else parents
    return [_ids_of(each) for each in parents]


class DependentKeywords(ScheduleKeywords, total=False):
    """The keywords of `then`."""

    on: EndWord
    dormant: bool


class ManyKeywords(TypedDict, total=False):
    """The keywords of a batch, besides those of its members."""

    prune_empty: bool
    options: Mapping[str, ScheduleKeywords]  #: of single members, by the key of their input


class ManyScheduleKeywords(ScheduleKeywords, ManyKeywords, total=False):
    """The keywords of `schedule_many`."""


class ManyDependentKeywords(DependentKeywords, ManyKeywords, total=False):
    """The keywords of `then_many`."""


class JobKeywords(TypedDict, total=False):
    """The keywords of one job."""

    group: str | None
    delay: timedelta | None
    priority: int | None
    max_retries: int | None
    retry: bool | None
    retry_delay: timedelta | None
    timeout: Timeout | None
    unique_for: timedelta | None
    unique_until: UniqueUntil
    key: str | None


class EnqueueKeywords(JobKeywords, total=False):
    """The keywords of one job, and the caller's connection that it is written on."""

    connection: object


class LifecycleKeywords(TypedDict, total=False):
    """The keywords of a lifecycle contract, besides its name and its interval."""

    tables: Required[Sequence[Table]]
    database: str | None
    database_env: str | None
    batch: Pace
    budget: Budget


class CleanupKeywords(TypedDict, total=False):
    """The keywords of `cleanup`: which runs are deleted early, and how."""

    retention: timedelta | Mapping[AnyTrain | str, timedelta]
    interval: timedelta
    batch_size: int | None
    trains: Sequence[AnyTrain | str]


class Scheduled:
    """A declared manifest; others may follow it."""

    __slots__ = ("_declared", "external_id")

    def __init__(self, declared: Declared, external_id: str) -> None:
        self._declared = declared
        self.external_id = external_id

    def __repr__(self) -> str:
        return f"<Scheduled {self.external_id!r}>"

    @overload
    def then(
        self, external_id: str, train: TrainWithoutInput, **options: Unpack[DependentKeywords]
    ) -> Scheduled: ...

    @overload
    def then(
        self,
        external_id: str,
        train: type[Train[In, Any]],
        input: In,
        **options: Unpack[DependentKeywords],
    ) -> Scheduled: ...

    @overload
    def then(
        self, external_id: str, train: FunctionOf[In], input: In, **options: Unpack[DependentKeywords]
    ) -> Scheduled: ...

    @overload
    def then(
        self, external_id: str, train: RunFirstTrainOf[In], input: In, **options: Unpack[DependentKeywords]
    ) -> Scheduled: ...

    @overload
    def then(
        self,
        external_id: str,
        train: TrainWithInput,
        *,
        pass_output: Literal[True],
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    def then(
        self,
        external_id: str,
        train: Any,
        input: object = NOT_GIVEN,
        **options: Any,
    ) -> Scheduled:
        """Declare a manifest that runs after this one.

        `on` is "success" (the default), "failure" or "end". `dormant=True`: only if a run of this one
        activates it. `pass_output=True`: the output of this one is its input.
        """
        keywords = {**options, "after": self}
        return self._declared.schedule(external_id, train, schedule=Manual(), input=input, keywords=keywords)

    @overload
    def then_many(
        self,
        prefix: str,
        train: type[Train[In, Any]],
        inputs: Mapping[str, In],
        **keywords: Unpack[ManyDependentKeywords],
    ) -> Mapping[str, Scheduled]: ...

    @overload
    def then_many(
        self,
        prefix: str,
        train: FunctionOf[In],
        inputs: Mapping[str, In],
        **keywords: Unpack[ManyDependentKeywords],
    ) -> Mapping[str, Scheduled]: ...

    @overload
    def then_many(
        self,
        prefix: str,
        train: RunFirstTrainOf[In],
        inputs: Mapping[str, In],
        **keywords: Unpack[ManyDependentKeywords],
    ) -> Mapping[str, Scheduled]: ...

    def then_many(
        self,
        prefix: str,
        train: Any,
        inputs: Mapping[str, Any],
        **keywords: Unpack[ManyDependentKeywords],
    ) -> Mapping[str, Scheduled]:
        """Declare PREFIX-KEY after this one for every input, in the group PREFIX; as `schedule_many`."""
        given = {**keywords, "after": self}
        return self._declared.schedule_batch(prefix, train, schedule=Manual(), inputs=inputs, keywords=given)
