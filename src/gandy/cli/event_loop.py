"""Which event loop a process runs on: uvloop where the extra is installed, asyncio's own otherwise."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Give what makes the loop."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop  # noqa: PLC0415 an extra

    return uvloop.new_event_loop
