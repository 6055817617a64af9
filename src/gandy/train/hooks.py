"""Callables of the application that are told when a run starts or ends. They change nothing."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

from gandy.errors import UnknownHookError

if TYPE_CHECKING:
    from gandy.model.outcome import Outcome

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


Hook: TypeAlias = Callable[[HookEvent], Awaitable[None] | None]
AnyHook = TypeVar("AnyHook", bound=Hook)


class Hooks:
    """The hooks of one application, called in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {name: [] for name in HOOK_NAMES}

    def on(self, name: HookName) -> Callable[[AnyHook], AnyHook]:
        """Return a decorator that adds a hook; a sync one runs on the event loop and must be short."""
        if name not in self._hooks:
            raise UnknownHookError(name=name, known=HOOK_NAMES)

        def add(hook: AnyHook) -> AnyHook:
            self._hooks[name].append(hook)
            return hook

        return add

    def wants(self, name: HookName) -> bool:
        """Whether anybody listens, so that nothing is built for nobody."""
        return bool(self._hooks[name])

    async def fire(self, event: HookEvent) -> None:
        """Call every hook of that name once; what one raises is logged and goes no further."""
        for hook in self._hooks[event.name]:
            try:
                told = hook(event)
                if inspect.isawaitable(told):
                    await told
            except Exception:
                logger.exception(
                    "hook %s on %r failed for run %s of %s", hook, event.name, event.run_id, event.train
                )
