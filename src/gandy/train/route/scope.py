"""What is available at a point of a route, and in which slot."""

from __future__ import annotations

from dataclasses import dataclass, field

from gandy.train.route.cargo import NOTHING, parts_of, stands_for, type_name
from gandy.train.route.plan import FIRST_FREE_SLOT, INPUT_SLOT, Slot, Source


@dataclass(slots=True)
class Scope:
    """Grows junction by junction while a route is checked. A later value of a type hides an earlier one."""

    blank: list[object] = field(default_factory=lambda: [None] * FIRST_FREE_SLOT)
    _stored: list[tuple[object, Slot]] = field(default_factory=list)

    def add_input(self, key: object) -> Source | None:
        """Make the train's input available; a tuple is laid out like a junction's result."""
        if parts_of(key):
            return self.add(key)
        if key is not NOTHING:
            self._stored.append((key, INPUT_SLOT))
        return None

    def add(self, key: object) -> Source:
        """Make a result available and say where it is to be laid."""
        parts = parts_of(key)
        if parts:
            return tuple(self.add(part) for part in parts)
        slot = self.reserve(None)
        self._stored.append((key, slot))
        return slot

    def reserve(self, default: object) -> Slot:
        """Take a slot that holds this value when a run begins."""
        self.blank.append(default)
        return len(self.blank) - 1

    def find(self, key: object) -> Source | None:
        """Return where a type is: itself, else a tuple's parts, else the latest that may stand for it."""
        for stored, slot in reversed(self._stored):
            if stored == key:
                return slot
        composed = self._compose(parts_of(key))
        if composed is not None:
            return composed
        return next((slot for stored, slot in reversed(self._stored) if stands_for(stored, key)), None)

    @property
    def available(self) -> tuple[str, ...]:
        """The names of the types that are here, in the order in which they came."""
        return tuple(dict.fromkeys(type_name(stored) for stored, _ in self._stored))

    def _compose(self, parts: tuple[object, ...]) -> Source | None:
        sources = [self.find(part) for part in parts]
        found = tuple(source for source in sources if source is not None)
        return found if parts and len(found) == len(parts) else None
