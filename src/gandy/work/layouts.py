"""Record the payload layouts of trains, and load them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.model.layout import OPEN_LAYOUT
from gandy.model.run import ADMINISTRATIVE_TRAINS
from gandy.store.owners import TrainLayout, load_layouts, record_layouts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gandy.store.drivers.database import Runner
    from gandy.store.owners import PayloadLayouts
    from gandy.store.statements import Operation
    from gandy.train.registry import AnyTrain, Registry


class LayoutRecord:
    """Records the layouts of an application's trains, each of them once."""

    def __init__(self, database: Runner, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._recorded: set[str] = set()

    def has(self, train: AnyTrain) -> bool:
        """Return whether this record has already stored the layout of a train."""
        return train.name in self._recorded

    async def record(self, trains: Iterable[AnyTrain]) -> None:
        """Store the layouts that this record has not stored yet."""
        new = [train for train in trains if not self.has(train)]
        if new:
            await self._database.run(record_layouts(self._owner, [layout_of_train(each) for each in new]))
            self._recorded.update(train.name for train in new)


def layout_of_train(train: AnyTrain) -> TrainLayout:
    """Return the payload layouts of a train in this version of the code."""
    return TrainLayout(train.name, train.input.layout, train.output.layout)


def record_known(owner: str, registry: Registry | None, train: str) -> Operation[None]:
    """Record the layout of a registered train before one of its payloads is written."""
    if registry is not None and train in registry:
        yield from record_layouts(owner, [layout_of_train(registry.get(train))])


def layouts_for(registry: Registry | None, owner: str, train: str) -> Operation[PayloadLayouts]:
    """Combine the recorded layouts of a train with those of the registry, which is this owner's."""
    known: list[TrainLayout] = []
    if registry is not None and train in registry:
        known.append(layout_of_train(registry.get(train)))
    elif train in ADMINISTRATIVE_TRAINS:
        known.append(TrainLayout(train, OPEN_LAYOUT, OPEN_LAYOUT))
    return (yield from load_layouts(owner, train, *known))
