"""The ground that a serving process runs on: its event loop and its garbage collector."""

from __future__ import annotations

import asyncio
import gc
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

YOUNG_OBJECTS: Final = 50_000


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Give what makes the loop: uvloop where the extra is installed, asyncio's own otherwise."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop  # noqa: PLC0415 an extra

    return uvloop.new_event_loop


def spare_collector() -> None:
    """Leave what was loaded at the start alone, and collect less often: jobs leave hardly any cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
