"""What passes between a claimer and those around it: its worker, its places, its claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.services.worker.claiming import Claimer
    from gandy.store.dispatching import Dispatched, DispatchRequest


class Claiming(Protocol):
    """What a claimer has to know of its worker."""

    @property
    def id(self) -> str:
        """Under which name to claim."""
        ...

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs and every end is on record, so that nothing new comes from here."""
        ...

    def note_idle(self, claimer: Claimer, *, is_idle: bool) -> None:
        """Say whether a claim made while all was quiet found nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The slots that a claimer fills: how many, and for which trains."""

    slots: int
    prefetch: int
    trains: Sequence[str]


class Ticket(NamedTuple):
    """A claim that another transaction makes: with the end that frees the place, in one commit."""

    claimer: Claimer
    request: DispatchRequest
    serial: int

    def land(self, found: Dispatched | None) -> None:
        """Hand over what was claimed; None: nothing was committed."""
        self.claimer.land(self, found)


class Answer(NamedTuple):
    """What a claim brought, and why no more."""

    claimed: int
    is_contended: bool = False
    is_cut: bool = False

    @classmethod
    def of(cls, found: Dispatched, claimed: int) -> Answer:
        """Read what the database said."""
        return cls(claimed, found.is_contended or found.held > 0, found.is_cut)
