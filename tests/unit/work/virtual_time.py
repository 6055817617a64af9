"""An event loop whose clock jumps to the next timer: hours of waiting pass in no time, in the right order."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Sleeps by moving the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self.now += timeout
        elif timeout is None:
            raise RuntimeError("everything waits and no timer is set: this would hang")
        return super().select(0)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return super().get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in virtual time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


async def let_pass(seconds: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
