"""Declare trains, schedules and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, overload

from gandy.app.declared import Declared
from gandy.app.delete_old_rows import GROUP as DELETE_OLD_ROWS
from gandy.desk.declarations import NOT_GIVEN, split_arguments
from gandy.events import EventBus
from gandy.lifecycle import Contract
from gandy.model.manifest import GroupDeclaration
from gandy.rules.schedules import every, once
from gandy.train.definition import TrainOptions, define_function
from gandy.train.hooks import Hooks
from gandy.train.registry import Provided, Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    from gandy.app.keywords import (
        LifecycleKeywords,
        ManyScheduleKeywords,
        Parents,
        PlacedKeywords,
        Scheduled,
        ScheduleKeywords,
        TrainKeywords,
    )
    from gandy.model.manifest import Declarations
    from gandy.model.schedule import Interval, TimeSchedule
    from gandy.submit import Submitter
    from gandy.train.base import (
        AnyFunction,
        AnyTrainClass,
        FunctionOf,
        In,
        RunFirstTrainOf,
        Train,
        TrainWithInput,
        TrainWithoutInput,
    )
    from gandy.train.hooks import AnyHook, HookName


DEFAULT_EVERY: Final = every(minutes=5)


class Declaring:
    """The declarations of an application, made before it is opened."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.registry = Registry()
        self.provided = Provided()
        self.hooks = Hooks()
        self.events = EventBus()
        self.submitter: Submitter | None = None
        self._declared = Declared(self.registry)

    def submit_to(self, submitter: Submitter) -> None:
        """Pass dispatched runs to another engine, which calls `run_delivered` where the trains are."""
        self.submitter = submitter

    @property
    def declarations(self) -> Declarations:
        """All groups, manifests and batches, for seeding."""
        return self._declared.of(self.name)

    @overload
    def train(self, function: AnyFunction, /) -> AnyFunction: ...

    @overload
    def train(
        self, /, *, name: str | None = ..., **options: Unpack[TrainKeywords]
    ) -> Callable[[AnyFunction], AnyFunction]: ...

    def train(
        self, function: Any = None, /, *, name: str | None = None, **options: Unpack[TrainKeywords]
    ) -> Any:
        """Register a function as a train; return it unchanged: `@app.train` or `@app.train(timeout=...)`."""
        chosen = TrainOptions(**options)

        def register(function: AnyFunction) -> AnyFunction:
            self.registry.add(define_function(function, name=name, options=chosen))
            return function

        return register if function is None else register(function)

    def register(self, train: AnyTrainClass) -> AnyTrainClass:
        """Register a Train class: `@app.register`."""
        self.registry.add(train.definition)
        if train.definition.options.group == DELETE_OLD_ROWS.name:
            self._declared.add_usual_group(DELETE_OLD_ROWS)
        return train

    def provide(self, provided: object, source: object) -> None:
        """Provide a value, or a factory that is called at opening, to parameters of that type."""
        self.provided.add(provided, source)

    def on(self, event: HookName) -> Callable[[AnyHook], AnyHook]:
        """Call the decorated function when a run has started, completed, failed, been cancelled or parked."""
        return self.hooks.on(event)

    def group(
        self, name: str, *, max_active_jobs: int | None = None, priority: int = 0, enabled: bool = True
    ) -> None:
        """Declare a group of manifests that share a cap, a priority and a switch."""
        group = GroupDeclaration(
            name=name, max_active_jobs=max_active_jobs, priority=priority, is_enabled=enabled
        )
        self._declared.add_group(group)

    def lifecycle(
        self, name: str, schedule: Interval = DEFAULT_EVERY, **options: Unpack[LifecycleKeywords]
    ) -> None:
        """Declare a contract for the service `lifecycle`; `tables=` defines which rows may be deleted.

            app.lifecycle("statestore", every(minutes=5), tables=[Table("sessions", [expires("expires_at")])])

        The database is the application's own, unless `database=` or `database_env=` names another.
        """
        self._declared.add_contract(Contract(name, every=schedule.every, **options))

    @overload
    def schedule(
        self,
        external_id: str,
        train: TrainWithoutInput,
        schedule: TimeSchedule,
        /,
        **options: Unpack[PlacedKeywords],
    ) -> Scheduled: ...

    @overload
    def schedule(
        self,
        external_id: str,
        train: TrainWithoutInput,
        *,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> Scheduled: ...

    @overload
    def schedule(
        self,
        external_id: str,
        train: type[Train[In, Any]],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> Scheduled: ...

    @overload
    def schedule(
        self,
        external_id: str,
        train: FunctionOf[In],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> Scheduled: ...

    @overload
    def schedule(
        self,
        external_id: str,
        train: RunFirstTrainOf[In],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> Scheduled: ...

    @overload
    def schedule(
        self,
        external_id: str,
        train: TrainWithInput,
        *,
        after: Parents,
        pass_output: Literal[True],
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    def schedule(  # noqa: PLR0917 - readable in this order
        self,
        external_id: str,
        train: Any,
        input: object = NOT_GIVEN,
        schedule: TimeSchedule | None = None,
        **options: Any,
    ) -> Scheduled:
        """Declare a manifest: `app.schedule("report", MakeReport, ReportInput(), cron("0 3 * * *"))`.

        Without a schedule it runs only when it is triggered, or `after=` other manifests: when each of them
        has ended, in the way that `on` names, since it was last queued.
        """
        value, when = split_arguments(input, schedule)
        return self._declared.schedule(external_id, train, schedule=when, input=value, keywords=options)

    @overload
    def schedule_once(
        self,
        external_id: str,
        train: TrainWithoutInput,
        *,
        at: datetime | None = ...,
        delay: timedelta | None = ...,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    @overload
    def schedule_once(
        self,
        external_id: str,
        train: type[Train[In, Any]],
        input: In,
        *,
        at: datetime | None = ...,
        delay: timedelta | None = ...,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    @overload
    def schedule_once(
        self,
        external_id: str,
        train: FunctionOf[In],
        input: In,
        *,
        at: datetime | None = ...,
        delay: timedelta | None = ...,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    @overload
    def schedule_once(
        self,
        external_id: str,
        train: RunFirstTrainOf[In],
        input: In,
        *,
        at: datetime | None = ...,
        delay: timedelta | None = ...,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled: ...

    def schedule_once(
        self,
        external_id: str,
        train: Any,
        input: object = NOT_GIVEN,
        *,
        at: datetime | None = None,
        delay: timedelta | None = None,
        **options: Unpack[ScheduleKeywords],
    ) -> Scheduled:
        """Declare a manifest that runs one time, at an instant or some time after its first seeding."""
        schedule = once(at=at, delay=delay)
        return self._declared.schedule(external_id, train, schedule=schedule, input=input, keywords=options)

    @overload
    def schedule_many(
        self,
        name: str,
        train: type[Train[In, Any]],
        inputs: Mapping[str, In],
        schedule: TimeSchedule,
        **keywords: Unpack[ManyScheduleKeywords],
    ) -> Mapping[str, Scheduled]: ...

    @overload
    def schedule_many(
        self,
        name: str,
        train: FunctionOf[In],
        inputs: Mapping[str, In],
        schedule: TimeSchedule,
        **keywords: Unpack[ManyScheduleKeywords],
    ) -> Mapping[str, Scheduled]: ...

    @overload
    def schedule_many(
        self,
        name: str,
        train: RunFirstTrainOf[In],
        inputs: Mapping[str, In],
        schedule: TimeSchedule,
        **keywords: Unpack[ManyScheduleKeywords],
    ) -> Mapping[str, Scheduled]: ...

    def schedule_many(  # noqa: PLR0917 - readable in this order
        self,
        name: str,
        train: Any,
        inputs: Mapping[str, Any],
        schedule: TimeSchedule,
        **keywords: Unpack[ManyScheduleKeywords],
    ) -> Mapping[str, Scheduled]:
        """Declare NAME-KEY for every input, in the group NAME; a key removed from the mapping is orphaned.

        `options={KEY: {...}}` are those of single members.
        """
        return self._declared.schedule_batch(name, train, schedule=schedule, inputs=inputs, keywords=keywords)
