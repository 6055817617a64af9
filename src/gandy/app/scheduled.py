"""A declared manifest, to which others can be chained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, overload

from gandy.app.manifests import NOT_GIVEN
from gandy.model.schedule import Dependent, DormantDependent

if TYPE_CHECKING:
    from gandy.app.declared import Declared
    from gandy.app.keywords import ScheduleKeywords
    from gandy.train.base import FunctionOf, In, RunFirstTrainOf, Train, TrainWithoutInput


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
        """Declare a manifest that follows this one's success; a dormant one only when its run says so."""
        follows = DormantDependent(self.external_id) if dormant else Dependent(self.external_id)
        return self._declared.schedule(external_id, train, schedule=follows, input=input, keywords=options)
