"""Callables of the application that are told when a run starts or ends. They change nothing."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

from gandy.errors import UnknownHookError

if TYPE_CHECKING:
    from gandy.model.run import Outcome

HookName: TypeAlias = Literal["started", "completed", "failed", "cancelled", "dead_lettered"]
HOOK_NAMES: Final[tuple[str, ...]] = get_args(HookName)
logger = logging.getLogger("gandy.hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """What a hook is told."""

    name: HookName
    train: str
    run_id: int
    attempt: int
    manifest: str | None = None
    outcome: Outcome[object] | None = None  # None when the run has only started
    reason: str | None = None  # why it was parked as a dead letter
    masks: object = field(default=None, repr=False, compare=False)  # keeps the run's secrets out of all logs


Hook: TypeAlias = Callable[[HookEvent], Awaitable[None] | None]
AnyHook = TypeVar("AnyHook", bound=Hook)


class Hooks:
    """The hooks of one application, called in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {name: [] for name in HOOK_NAMES}

    def on(self, name: HookName) -> Callable[[AnyHook], AnyHook]:
        """Return a decorator that adds a hook; a sync one is called in a thread."""
        if name not in self._hooks:
            raise UnknownHookError(name=name, known=HOOK_NAMES)

        def add(hook: AnyHook) -> AnyHook:
            self._hooks[name].append(hook)
            return hook

        return add

    def wants(self, name: HookName) -> bool:
        """Whether any hook listens, so that no event is made in vain."""
        return bool(self._hooks[name])

    def of(self, name: HookName) -> tuple[Hook, ...]:
        """Give the hooks of one name, in the order in which they were added."""
        return tuple(self._hooks[name])

    async def fire(self, event: HookEvent) -> None:
        """Call every hook of that name once, here; what one raises is logged and goes no further."""
        task = asyncio.current_task()
        cancelling = 0 if task is None else task.cancelling()
        for hook in self._hooks[event.name]:
            try:
                told = hook(event)
                if inspect.isawaitable(told):
                    await told
            except BaseException as error:  # whatever a hook raises is its own affair
                if task is not None and task.cancelling() > cancelling:
                    raise
                report_raised(hook, event, error)


def is_async(hook: Hook) -> bool:
    """Whether the call only makes a coroutine, which takes no time."""
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__)


def name_of(hook: Hook) -> str:
    """Name a hook for people, whatever its own text would do."""
    name = getattr(hook, "__qualname__", None)
    return name if isinstance(name, str) else type(hook).__qualname__


def report_raised(hook: Hook, event: HookEvent, error: BaseException) -> None:
    """Log what a hook raised, also where that cannot be printed."""
    text = "hook %s on %r failed for run %s of %s"
    told = (name_of(hook), event.name, event.run_id, event.train)
    try:
        logger.error(text, *told, exc_info=error)
    except BaseException:  # noqa: BLE001 the exception's own methods run here
        logger.error(f"{text}: a %s that cannot be printed", *told, type(error).__qualname__)  # noqa: G004, TRY400
