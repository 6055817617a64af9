"""Which parts of payloads are secret, recorded for whoever shows them without knowing their train."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.model.layout import Layouts
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.model.layout import Layout
    from gandy.store.statements import Dialect, Operation


@dataclass(frozen=True, slots=True)
class TrainLayout:
    """How the payloads of one train look in this version of the code."""

    train: str
    input: Layout
    output: Layout

    @property
    def digest(self) -> str:
        """Name the layout: the same for every process with the same types."""
        return hashlib.sha256(_text([self.input, self.output]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PayloadLayouts:
    """All that is known about the payloads of one train."""

    input: Layouts
    output: Layouts


def takes_writers(dialect: Dialect) -> bool:
    """Tell whether others can write while a caller's transaction is open."""
    return dialect == "postgres"


def record_layouts(owner: str, layouts: Sequence[TrainLayout]) -> Operation[None]:
    """Record layouts; one that is there stays as it is."""
    rows = [
        {
            "train_name": each.train,
            "digest": each.digest,
            "input_layout": _text(each.input),
            "output_layout": _text(each.output),
        }
        for each in layouts
    ]
    if rows:
        yield batch("record_layouts", rows, owner=owner)


def load_layouts(owner: str, train: str, *known: TrainLayout) -> Operation[PayloadLayouts]:
    """Read the layouts of all versions of a train, beside those that are known here."""
    rows = yield statement("load_layouts", owner=owner, train_name=train)
    return PayloadLayouts(
        Layouts([*(json.loads(row.input_layout) for row in rows), *(each.input for each in known)]),
        Layouts([*(json.loads(row.output_layout) for row in rows), *(each.output for each in known)]),
    )


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
