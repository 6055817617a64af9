"""The keywords of trains and schedules, and the dependents of a declared schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Required, TypeAlias, TypedDict, Unpack, overload

from gandy.desk.declarations import NOT_GIVEN
from gandy.model.schedule import Dependent, DormantDependent, MisfirePolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from gandy.app.declaring import Declared
    from gandy.lifecycle import Table
    from gandy.model.exclusion import Exclusion
    from gandy.settings.bounds import Timeout
    from gandy.store.queueing import UniqueUntil
    from gandy.sweep import Budget, Pace
    from gandy.train.base import FunctionOf, In, RunFirstTrainOf, Train, TrainWithoutInput


MisfireWord: TypeAlias = Literal["fire_once_now", "do_nothing", "catch_up"]
ScheduleWord: TypeAlias = Literal["none", "cron", "interval", "once", "dependent", "dormant_dependent"]
RunState: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
AnyTrain: TypeAlias = "type | Callable[..., object]"


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


class RuntimeScheduleKeywords(ScheduleKeywords, total=False):
    """The further keywords of `add_schedule`: the parent of the manifest."""

    after: str | None
    dormant: bool


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
        self,
        external_id: str,
        train: TrainWithoutInput,
        *,
        dormant: bool = ...,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    @overload
    def then(
        self,
        external_id: str,
        train: type[Train[In, Any]],
        input: In,
        *,
        dormant: bool = ...,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    @overload
    def then(
        self,
        external_id: str,
        train: FunctionOf[In],
        input: In,
        *,
        dormant: bool = ...,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    @overload
    def then(
        self,
        external_id: str,
        train: RunFirstTrainOf[In],
        input: In,
        *,
        dormant: bool = ...,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    def then(
        self,
        external_id: str,
        train: Any,
        input: object = NOT_GIVEN,
        *,
        dormant: bool = False,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled:
        """Declare a manifest that runs after this one's success; a dormant one only if activated."""
        follows = DormantDependent(self.external_id) if dormant else Dependent(self.external_id)
        return self._declared.schedule(external_id, train, schedule=follows, input=input, keywords=options)
