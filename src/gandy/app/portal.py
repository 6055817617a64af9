"""An event loop in a thread of its own, through which sync code reaches an open application."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeVar

from gandy.app.opening import OpenApp, opened

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from gandy.app.declaring import Declaring
    from gandy.clock import ManualClock
    from gandy.settings import Settings

T = TypeVar("T")


class Portal:
    """Opens an application in a thread of its own and runs coroutines there."""

    def __init__(self, app: Declaring, settings: Settings, *, clock: ManualClock | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gandy-sync", daemon=True)
        self._stack = AsyncExitStack()
        self._thread.start()
        try:
            self.open_app: OpenApp = self.call(
                self._stack.enter_async_context(opened(app, settings, clock=clock))
            )
        except BaseException:
            self._stop()
            raise

    def call(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the thread and wait for it; who is interrupted here interrupts it there."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Close the application, then the loop and the thread."""
        try:
            self.call(self._stack.aclose())
        finally:
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
