"""What this process knows about itself, once for each application."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gandy.errors import MissingExtraError
from gandy.telemetry.loops import LoopWatch

if TYPE_CHECKING:
    from gandy.events import EventBus
    from gandy.telemetry.metrics import Metrics

_OBSERVED: WeakKeyDictionary[EventBus, Telemetry] = WeakKeyDictionary()


class Telemetry:
    """Listens to an application's events from its making on."""

    def __init__(self, events: EventBus) -> None:
        self.loops = LoopWatch(events)
        try:
            from gandy.telemetry.metrics import Metrics  # noqa: PLC0415 an extra
        except ModuleNotFoundError:
            self._metrics: Metrics | None = None
        else:
            self._metrics = Metrics(events)

    @cached_property
    def metrics(self) -> Metrics:
        """The series of the application."""
        if self._metrics is None:
            raise MissingExtraError("metrics", "metrics")
        return self._metrics


def observe(events: EventBus) -> Telemetry:
    """Give the telemetry of an application; every face of it shares one."""
    found = _OBSERVED.get(events)
    if found is None:
        found = _OBSERVED[events] = Telemetry(events)
    return found
