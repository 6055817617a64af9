"""The secret texts of all runs of this process, for what is written where no run can be asked."""

from __future__ import annotations

import weakref
from collections import Counter, deque
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from gandy.model.layout import MASK, SHORTEST_SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: How long the secrets of a run stay known after it: threads and tasks that it started may write later.
GRACE_SECONDS: Final = 600.0
#: How many characters of texts of ended runs are kept; beyond that the oldest are forgotten earlier.
MOST_LATE_CHARACTERS: Final = 8_000_000
_OVERHEAD: Final = 100  # what a short text costs besides its characters


class HiddenTexts:
    """Knows each text while its holder lives, and for a bounded time after.

    A search costs as much as the searched text is long, however many texts are known.
    """

    def __init__(
        self,
        clock: Callable[[], float] = monotonic,
        *,
        grace_seconds: float = GRACE_SECONDS,
        most_late: int = MOST_LATE_CHARACTERS,
    ) -> None:
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._most_late = most_late
        self._lock = Lock()
        self._holders: dict[str, int] = {}  # by text: how many runs have it
        self._shapes: Counter[tuple[str, int]] = Counter()
        self._lengths: dict[str, tuple[int, ...]] = {}  # by the texts' beginning, the longest first
        self._ended: deque[tuple[str, ...]] = deque()
        self._late: dict[str, float] = {}  # since when no run holds a text, the oldest first
        self._late_size = 0

    @property
    def is_empty(self) -> bool:
        """Whether no text is known: nothing needs to be looked at."""
        return not self._lengths

    def add(self, holder: object, texts: Iterable[str]) -> None:
        """Hide texts while the holder is referenced, and for the grace after."""
        held = tuple(texts)
        if not held:
            return
        with self._lock:
            self._settle()
            for text in held:
                self._hold(text)
        # The collector calls this anywhere, also where the lock is held: it must not take it.
        weakref.finalize(holder, self._ended.append, held).atexit = False

    def without(self, text: str) -> str:
        """Give the text with every hidden text masked."""
        if self.is_empty:
            return text
        if self._ended or self._late:
            with self._lock:
                self._settle()
        parts: list[str] = []
        begun = position = 0
        while position <= len(text) - SHORTEST_SECRET:
            length = self._length_at(text, position)
            if length:
                parts += (text[begun:position], MASK)
                begun = position = position + length
            else:
                position += 1
        return "".join((*parts, text[begun:])) if parts else text

    def _length_at(self, text: str, position: int) -> int:
        for length in self._lengths.get(text[position : position + SHORTEST_SECRET], ()):
            if text[position : position + length] in self._holders:
                return length
        return 0

    def _settle(self) -> None:
        """Note which texts have lost their last holder, and forget what is late for too long or too much."""
        now = self._clock()
        while self._ended:
            for text in self._ended.popleft():
                self._holders[text] -= 1
                if self._holders[text] == 0:
                    self._late[text] = now
                    self._late_size += len(text) + _OVERHEAD
        while self._late:
            text, since = next(iter(self._late.items()))
            if now - since < self._grace_seconds and self._late_size <= self._most_late:
                return
            self._forget(text)

    def _hold(self, text: str) -> None:
        if text not in self._holders:
            self._shapes[text[:SHORTEST_SECRET], len(text)] += 1
            self._note_lengths(text[:SHORTEST_SECRET], len(text))
        if self._late.pop(text, None) is not None:
            self._late_size -= len(text) + _OVERHEAD
        self._holders[text] = self._holders.get(text, 0) + 1

    def _forget(self, text: str) -> None:
        del self._late[text], self._holders[text]
        self._late_size -= len(text) + _OVERHEAD
        shape = (text[:SHORTEST_SECRET], len(text))
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]
            self._note_lengths(*shape)

    def _note_lengths(self, beginning: str, changed: int) -> None:
        """Name the lengths that texts of one beginning have, after one of them came or went."""
        lengths = {*self._lengths.get(beginning, ()), changed}
        left = sorted((each for each in lengths if self._shapes[beginning, each]), reverse=True)
        if left:
            self._lengths[beginning] = tuple(left)
        else:
            del self._lengths[beginning]


hidden_texts: Final = HiddenTexts()
