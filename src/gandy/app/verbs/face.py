"""How one definition of a verb serves both interfaces: awaited in an event loop, blocking elsewhere."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from gandy.settings.bounds import BOUNDS, check

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Self

    from gandy.app.verbs.dead_letters import DeadLetterVerbs
    from gandy.app.verbs.groups import GroupVerbs
    from gandy.app.verbs.manifests import ManifestVerbs
    from gandy.app.verbs.queue import QueueVerbs
    from gandy.app.verbs.reports import AuditVerbs, UpcomingVerbs
    from gandy.app.verbs.runs import RunVerbs
    from gandy.context import Context
    from gandy.model.owners import Operator

P = ParamSpec("P")
Result = TypeVar("Result")

#: The bound of a parameter, where it is not the one of the same name.
_BOUND_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("run_id", "entry_id", "letter_id", "ids", "before"), "id"),
    "manifest": "external_id",
    "all": "enabled",
}


class Awaited:
    """Marks the verbs of the async interface."""


class Blocking:
    """Marks the verbs of the sync interface."""


Face = TypeVar("Face")


@dataclass(frozen=True, slots=True)
class FaceAccess:
    """The way from a verb to the open application."""

    open: Callable[[str], Context]  #: takes what is asked for, to name it if the application is not open
    wait: Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any] | None = None  #: None: the caller awaits


class Verbs(Generic[Face]):
    """The verbs of one noun."""

    noun: ClassVar[str]

    def __init__(self, access: FaceAccess) -> None:
        self.access = access

    @property
    def _context(self) -> Context:
        return self.access.open(f"app.{self.noun}")

    @staticmethod
    def _operator(name: str | None) -> Operator:
        from gandy.desk.audit import python_operator  # noqa: PLC0415 - loads the desk

        return python_operator(name)


class Verb(Generic[P, Result]):
    """A method of `Verbs`, written once as a coroutine; on the sync interface a call waits for its result."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, Result]]) -> None:
        self._function = function
        self.signature = inspect.signature(function)
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, verbs: None, kind: type) -> Self: ...

    @overload
    def __get__(self, verbs: Verbs[Awaited], kind: type) -> Callable[P, Coroutine[Any, Any, Result]]: ...

    @overload
    def __get__(self, verbs: Verbs[Blocking], kind: type) -> Callable[P, Result]: ...

    def __get__(self, verbs: Verbs[Any] | None, kind: type) -> object:
        if verbs is None:
            return self
        wait = verbs.access.wait

        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Result:
            self._check(verbs, *args, **kwargs)
            return await self._function(verbs, *args, **kwargs)

        def blocking(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - see the overloads
            return None if wait is None else wait(partial(awaited, *args, **kwargs))

        call = update_wrapper(awaited if wait is None else blocking, self._function)
        _, *parameters = self.signature.parameters.values()
        vars(call)["__signature__"] = self.signature.replace(parameters=parameters)  # without self
        return call

    def _check(self, verbs: Verbs[Any], *args: P.args, **kwargs: P.kwargs) -> None:
        """Check the arguments that have a bound; an omitted one is not checked."""
        given = self.signature.bind(verbs, *args, **kwargs).arguments
        for name, value in given.items():
            option = _BOUND_OF.get(name, name)
            default = self.signature.parameters[name].default
            if option in BOUNDS and value is not default:
                for each in value if name == "ids" else (value,):
                    check(option, each, called=name)


class Operating(ABC, Generic[Face]):
    """An application with the verbs of its operators, by the words of the command line."""

    @abstractmethod
    def _access(self) -> FaceAccess: ...

    @property
    def manifests(self) -> ManifestVerbs[Face]:
        """Show, trigger and change manifests: `await app.manifests.disable("extract", reason="...")`."""
        from gandy.app.verbs.manifests import ManifestVerbs  # noqa: PLC0415 - loads the desk

        return ManifestVerbs(self._access())

    @property
    def groups(self) -> GroupVerbs[Face]:
        """Show and change groups: `await app.groups.set("etl", max_active_jobs=4)`."""
        from gandy.app.verbs.groups import GroupVerbs  # noqa: PLC0415 - the same

        return GroupVerbs(self._access())

    @property
    def runs(self) -> RunVerbs[Face]:
        """Show, cancel, fail and repeat runs: `await app.runs.rerun(42)`."""
        from gandy.app.verbs.runs import RunVerbs  # noqa: PLC0415 - the same

        return RunVerbs(self._access())

    @property
    def queue(self) -> QueueVerbs[Face]:
        """Show and change queued jobs: `await app.queue.cancel(train="send_invoice")`."""
        from gandy.app.verbs.queue import QueueVerbs  # noqa: PLC0415 - the same

        return QueueVerbs(self._access())

    @property
    def dead_letters(self) -> DeadLetterVerbs[Face]:
        """Show and resolve dead letters: `await app.dead_letters.requeue(all=True)`."""
        from gandy.app.verbs.dead_letters import DeadLetterVerbs  # noqa: PLC0415 - the same

        return DeadLetterVerbs(self._access())

    @property
    def audit(self) -> AuditVerbs[Face]:
        """Show who changed what: `await app.audit.list(on="extract")`."""
        from gandy.app.verbs.reports import AuditVerbs  # noqa: PLC0415 - the same

        return AuditVerbs(self._access())

    @property
    def upcoming(self) -> UpcomingVerbs[Face]:
        """Show what comes next: `await app.upcoming.list(within=timedelta(hours=1))`."""
        from gandy.app.verbs.reports import UpcomingVerbs  # noqa: PLC0415 - the same

        return UpcomingVerbs(self._access())
