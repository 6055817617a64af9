"""What this process learned about a database, each with what it rests on: a change is a new question."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sqlalchemy import Connection, Engine

_MOST = 256


@dataclass(slots=True)
class Answers:
    """Answers by all that they depend on; the ones that were not asked for the longest time go."""

    _known: OrderedDict[Hashable, object] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def recall(self, question: Hashable) -> object:
        """The answer, or None."""
        with self._lock:
            if question in self._known:
                self._known.move_to_end(question)
            return self._known.get(question)

    def keep(self, question: Hashable, answer: object) -> None:
        """Remember an answer that holds as long as the question stays the same."""
        with self._lock:
            self._known[question] = answer
            while len(self._known) > _MOST:
                self._known.popitem(last=False)


_ANSWERS: WeakKeyDictionary[Engine, Answers] = WeakKeyDictionary()


def learned_about(connection: Connection) -> Answers:
    """What was learned about the database of this connection."""
    return _ANSWERS.setdefault(connection.engine, Answers())
